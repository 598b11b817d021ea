"""Rows of an export as contract frames."""

import sqlite3
from contextlib import closing

import polars as pl
import pytest

import kernelscope
from export_builder import DECODE, KERNEL, LAUNCH, PID, TID, ExportBuilder, global_pid
from kernelscope import frames
from kernelscope.nsys import source

YEAR_2024_NS = 1_704_067_200_000_000_000  # nsys export --ts-normalize true gives UTC


def sql(path, statement, *values):
    with closing(sqlite3.connect(path)) as database, database:
        database.execute(statement, values)
    return path


def test_frames_follow_their_contracts(read, run_export):
    run_export.copy(700, 3)
    run_export.memset(710, 2)
    run_export.replay(720, 5)
    trace = read(run_export)
    for name in ("graph_replays", "copies", "sets", "ranges"):
        frame = getattr(trace, name)
        assert not frame.is_empty()
        assert dict(frame.schema) == dict(getattr(frames, name.upper())), name
    named = {"name": pl.String()}
    assert dict(trace.kernels.schema) == {**frames.KERNELS, **named}
    assert dict(trace.api_calls.schema) == {**frames.API_CALLS, **named}


def test_absent_tables_read_as_empty_frames(read, export):
    export.kernel("nvjet_a", 10, 5)
    trace = read(export)
    for name in ("graph_replays", "copies", "sets", "api_calls", "ranges"):
        assert getattr(trace, name).is_empty()


def test_times_are_nanoseconds_as_recorded(read, export):
    export.kernel("nvjet_a", 10, 5)
    assert read(export).kernels.select("start_ns", "end_ns").row(0) == (10_000, 15_000)


def test_times_beyond_53_bits_keep_every_nanosecond(read, export):
    export.kernel("nvjet_a", 0.001, 0.002)
    kernels = read(export, shift_ns=YEAR_2024_NS).kernels
    assert kernels.select("start_ns", "end_ns").row(0) == (YEAR_2024_NS + 1, YEAR_2024_NS + 3)


def test_negative_times_are_legal(read, export):
    export.kernel("nvjet_a", -10, 5)
    assert read(export).kernels["start_ns"].to_list() == [-10_000]


@pytest.mark.parametrize("seed", range(3))
def test_kernels_are_sorted_whatever_the_order_of_rows(seed, read, run_export):
    kernels = read(run_export, shuffle=seed).kernels
    assert kernels["start_ns"].is_sorted()
    assert kernels.equals(read(run_export).kernels)


def test_a_kernel_carries_its_full_name(read, export):
    name = "void cublasLt::splitKreduce_kernel<(int)32, (int)16>(cublasLt::Params<T6>)"
    export.kernel(name, 10, 5)
    assert read(export).kernels["name"].to_list() == [name]


def test_without_stringids_a_kernel_is_called_by_its_number(read, export):
    export.string("first")
    export.kernel("nvjet_a", 10, 5)
    assert read(export, without=["StringIds"]).kernels["name"].to_list() == ["#1"]


def test_a_name_id_that_leads_nowhere_is_shown_as_its_number(write, export):
    export.kernel("nvjet_a", 10, 5)
    path = sql(write(export), f"UPDATE {KERNEL} SET demangledName = 99")
    assert kernelscope.read_export(path).kernels["name"].to_list() == ["#99"]


def test_bytes_that_are_not_utf8_become_replacement_characters(write, export):
    export.kernel("odd", 10, 5)
    export.range("odd", 1, 5, by_id=True)
    bad = b"user_\xff\xfe_v2"
    path = sql(write(export), "UPDATE StringIds SET value = CAST(? AS TEXT)", bad)
    trace = kernelscope.read_export(path)
    assert trace.kernels["name"].to_list() == ["user_\ufffd\ufffd_v2"]
    assert trace.ranges["label"].to_list() == ["user_\ufffd\ufffd_v2"]


def test_labels_stand_in_the_row_or_behind_an_id(read, export):
    export.kernel("nvjet_a", 10, 5)
    export.range("inline", 1, 2)
    export.range("by id", 3, 4, by_id=True)
    assert read(export).ranges["label"].to_list() == ["inline", "by id"]


def test_a_range_without_any_text_has_an_empty_label(write, export):
    export.kernel("nvjet_a", 10, 5)
    export.range("x", 1, 2)
    path = sql(write(export), "UPDATE NVTX_EVENTS SET text = NULL")
    assert kernelscope.read_export(path).ranges["label"].to_list() == [""]


@pytest.mark.parametrize("kind", [59, 60, 70, 71])
def test_every_kind_of_range_is_read(kind, read, export):
    export.kernel("nvjet_a", 10, 5)
    export.range(DECODE, 1, 2, kind=kind)
    assert read(export).ranges["label"].to_list() == [DECODE]


@pytest.mark.parametrize("kind", [33, 34, 39, 75, 76])
def test_marks_names_and_domains_are_not_ranges(kind, read, export):
    export.kernel("nvjet_a", 10, 5)
    export.range(DECODE, -5, None, kind=kind)
    assert read(export).ranges.is_empty()


def test_a_range_that_was_never_closed_has_no_end(read, export):
    export.kernel("nvjet_a", 10, 5)
    export.range(DECODE, 1, None)
    assert read(export).ranges["end_ns"].to_list() == [None]


def test_a_range_that_ends_before_it_starts_is_dropped(read, export):
    export.kernel("nvjet_a", 10, 5)
    export.range(DECODE, 9, 3)
    assert read(export).ranges.is_empty()


def test_only_labels_that_begin_with_the_prefix_are_found(read, export):
    export.kernel("nvjet_a", 10, 5)
    export.range("execute_model", 1, 2)
    export.range("re-execute_", 3, 4)
    assert read(export).find_ranges("execute_")["label"].to_list() == ["execute_model"]


def test_calls_and_kernels_of_one_process_share_its_key(read, export):
    export.kernel("nvjet_a", 10, 5, export.call(LAUNCH, 1))
    trace = read(export)
    assert trace.kernels["process"].to_list() == trace.api_calls["process"].to_list()
    assert trace.api_calls["thread"].to_list() == [global_pid(PID) | TID]


def test_negative_process_keys_give_the_right_pid(read):
    export = ExportBuilder("2024.2", hardware=0xFE)
    export.kernel("nvjet_a", 10, 5, export.call(LAUNCH, 1))
    trace = read(export)
    key = trace.kernels["process"].item()
    assert key < 0
    assert kernelscope.trace.pid(key) == PID
    assert trace.api_calls["process"].item() == key


def test_kernels_without_process_or_correlation_are_read(write, export):
    export.kernel("nvjet_a", 10, 5)
    path = sql(write(export), f"UPDATE {KERNEL} SET globalPid = NULL, correlationId = NULL")
    kernels = kernelscope.read_export(path).kernels
    assert kernels["process"].to_list() == [0]
    assert kernels["correlation_id"].to_list() == [None]


def test_pieces_cover_every_row_once_in_order(read, run_export, monkeypatch):
    whole = read(run_export).read("kernels")
    monkeypatch.setattr(source, "_PIECE_ROWS", 3)
    trace = read(run_export)
    sizes = trace.map_rows("kernels", ["start_ns"], lambda piece: piece.height)
    assert sizes == [3, 3, 3, 3, 2]  # 14 kernels
    assert trace.read("kernels").equals(whole)


def test_row_numbers_far_apart_are_read_in_few_pieces(write, run_export, monkeypatch):
    monkeypatch.setattr(source, "_MOST_PIECES", 50)
    path = write(run_export)
    sql(path, f"UPDATE {KERNEL} SET rowid = 9000000000000000000 WHERE rowid = 1")
    sql(path, f"UPDATE {KERNEL} SET rowid = -9000000000000000000 WHERE rowid = 2")
    assert kernelscope.read_export(path).kernels.height == 14


def test_progress_counts_up_to_every_kernel(write, run_export, monkeypatch):
    monkeypatch.setattr(source, "_PIECE_ROWS", 4)
    seen = []
    trace = kernelscope.read_export(write(run_export), progress=lambda *at: seen.append(at))
    trace.read("kernels")
    assert max(seen) == (14, 14)
    assert len(seen) == 4


def test_a_value_that_is_no_number_is_explained(write, run_export):
    path = sql(write(run_export), f"UPDATE {KERNEL} SET correlationId = 'x' WHERE rowid = 3")
    with pytest.raises(kernelscope.errors.ExportError, match=r"trace0\.sqlite cannot be read"):
        kernelscope.read_export(path).read("kernels")
