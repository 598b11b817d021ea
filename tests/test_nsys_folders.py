"""Exports of the kinds parquetdir and arrowdir: a folder with one file per table."""

import gc
import os

import pyarrow as pa
import pytest

import kernelscope
from export_builder import DECODE, GRAPH_TRACE, KERNEL, PID, ExportBuilder
from exports import exported
from folder_exports import FORMS, make_folder, write_table
from kernelscope.errors import ExportError, NotAnExport
from kernelscope.nsys.database import explain


@pytest.fixture
def temporary(monkeypatch, tmp_path):
    """Where temporary files go."""
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(folder))
    return folder


@pytest.fixture(params=FORMS)
def form(request):
    return request.param


@pytest.fixture
def folder(write, run_export, form):
    return make_folder(write(run_export), form)


def numbers(path):
    plain = kernelscope.summarize(path).to_dict()
    return {key: plain[key] for key in ("phases", "outside_steps", "excluded_steps", "warnings")}


def test_a_folder_gives_the_numbers_of_the_sqlite_export(write, run_export, form):
    path = write(run_export)
    assert numbers(make_folder(path, form)) == numbers(path)


@pytest.mark.parametrize("name", ["2023.4/qwen35-27b_b1", "2024.2/llama-8b_graphlevel"])
def test_a_captured_folder_gives_the_numbers_of_the_sqlite_export(name, form, tmp_path):
    path = tmp_path / "run.sqlite"
    path.write_bytes(exported(name).read_bytes())
    assert numbers(make_folder(path, form)) == numbers(path)


def test_tables_in_several_pieces_are_read_whole(write, run_export, form):
    folder = make_folder(write(run_export), form, rows_per_piece=3)
    assert kernelscope.read_export(folder).kernels.height == 14


def test_large_pieces_are_read_in_smaller_ones(folder, monkeypatch):
    monkeypatch.setattr("kernelscope.nsys.folders._BATCH_ROWS", 4)
    assert kernelscope.read_export(folder).kernels.height == 14


def test_ids_beyond_63_bits_are_those_of_the_sqlite_export(write, form):
    export = ExportBuilder("2024.2", hardware=0xFE)
    export.step(DECODE, [("nvjet_a", 5)])
    path = write(export)
    there, here = (kernelscope.read_export(one) for one in (path, make_folder(path, form)))
    assert here.kernels.equals(there.kernels)
    assert kernelscope.trace.pid(here.kernels["process"].item()) == PID
    assert here.ranges.equals(there.ranges)


def test_a_table_without_rows_is_a_table(write, run_export, form):
    folder = make_folder(write(run_export, lazy=False), form)
    assert numbers(folder)["warnings"] == []


def test_bytes_that_are_not_utf8_become_replacement_characters(folder, form):
    raw = pa.array([b"bad\xff\xfe", b"good"], pa.binary())
    text = pa.Array.from_buffers(pa.string(), 2, raw.buffers())
    table = pa.table({"id": pa.array([1, 2]), "value": text})
    write_table(folder / f"StringIds.{form}", table)
    names = kernelscope.read_export(folder).source.strings([1, 2])
    assert names == {1: "bad\ufffd\ufffd", 2: "good"}


def test_texts_with_few_values_may_be_dictionaries(folder, form):
    values = pa.array(["nvjet_a", "nvjet_b", "nvjet_a"]).dictionary_encode()
    write_table(
        folder / f"StringIds.{form}", pa.table({"id": pa.array([1, 2, 3]), "value": values})
    )
    names = kernelscope.read_export(folder).source.strings([1, 2, 3])
    assert names == {1: "nvjet_a", 2: "nvjet_b", 3: "nvjet_a"}


@pytest.mark.parametrize(
    "arguments", [["summarize"], ["steps"], ["doctor"], ["trim", "-o", "small.sqlite"]]
)
def test_every_command_takes_a_folder(arguments, folder, run, temporary, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    before = sorted(folder.iterdir())
    result = run(arguments[0], folder, *arguments[1:])
    assert result.exit_code == 0, result.output
    assert "export.sqlite" not in result.output
    assert sorted(folder.iterdir()) == before
    gc.collect()
    assert list(temporary.iterdir()) == []


def test_what_is_trimmed_from_a_folder_has_its_numbers(folder, tmp_path):
    kernelscope.trim(folder, tmp_path / "small.sqlite")
    mine, whole = numbers(tmp_path / "small.sqlite"), numbers(folder)
    assert mine["phases"] == whole["phases"]


def test_the_temporary_file_goes_with_the_trace(folder, temporary):
    trace = kernelscope.read_export(folder)
    assert trace.kernels.height == 14
    (made,) = temporary.iterdir()
    assert made.stat().st_mode & 0o077 == 0
    del trace
    gc.collect()
    assert list(temporary.iterdir()) == []


@pytest.mark.parametrize("stopped_by", [KeyboardInterrupt, MemoryError])
def test_the_temporary_file_goes_when_the_copy_is_stopped(
    stopped_by, folder, temporary, monkeypatch
):
    def stop(*_):
        assert len(list(temporary.iterdir())) == 1
        raise stopped_by

    monkeypatch.setattr("kernelscope.nsys.folders._plain", stop)
    with pytest.raises((KeyboardInterrupt, ExportError)):
        kernelscope.read_export(folder)
    gc.collect()
    assert list(temporary.iterdir()) == []


# What is refused


def test_a_folder_of_other_tables_is_a_folder(refused, tmp_path, form):
    folder = tmp_path / "other"
    folder.mkdir()
    write_table(folder / f"places.{form}", pa.table({"name": ["x"]}))
    assert "is a folder" in refused(folder)


def test_no_gpu_work_is_told_of_the_folder(refused, write, export, form):
    export.range(DECODE, 1, 2)
    folder = make_folder(write(export), form)
    assert f"{folder}: no CUDA work was recorded" in refused(folder)


@pytest.mark.parametrize("content", [b"", b"PAR1", b"\xff" * 4, bytes(4096), b"SQLite format 3\0"])
def test_a_file_that_is_not_what_its_name_says_is_named(content, refused, folder, form):
    file = folder / f"{KERNEL}.{form}"
    file.write_bytes(content)
    line = refused(folder)
    assert f"{file} is " in line
    assert "--force-overwrite true" in line


def test_every_cut_of_a_file_is_refused_or_read(folder, form):
    file = folder / f"{KERNEL}.{form}"
    whole = file.read_bytes()
    for size in range(1, len(whole), 97):
        file.write_bytes(whole[:size])
        # An Arrow stream may end after any batch: then it has no kernels.
        with pytest.raises(ExportError):
            kernelscope.read_export(folder)


def test_changed_bytes_never_end_in_anything_but_an_error_of_ours(folder, form):
    file = folder / f"{KERNEL}.{form}"
    whole = file.read_bytes()
    for at in range(0, len(whole), 157):
        file.write_bytes(whole[:at] + bytes([whole[at] ^ 0x5A]) + whole[at + 1 :])
        try:
            kernelscope.read_export(folder).read("kernels")
        except ExportError as error:
            assert str(folder) in str(error)  # noqa: PT017 - either outcome is right


def test_a_pipe_in_place_of_a_file_is_not_waited_for(refused, folder, form):
    file = folder / f"{KERNEL}.{form}"
    file.unlink()
    os.mkfifo(file)
    assert "not a regular file" in refused(folder)


def test_columns_of_other_types_are_not_read(folder, form):
    kernels = {
        "start": pa.array([[1]]),
        "end": pa.array([2]),
        "demangledName": pa.array([1]),
        "graphNodeId": pa.array([1]),
    }
    write_table(folder / f"{KERNEL}.{form}", pa.table(kernels))
    with pytest.raises(ExportError, match="has no column start"):
        kernelscope.read_export(folder).read("kernels")


def test_nothing_pickled_in_a_file_is_executed(folder, form, tmp_path):
    # What pyarrow before 14.0.1 unpickled: https://nvd.nist.gov/vuln/detail/CVE-2023-47248
    proof = tmp_path / "executed"
    payload = f"cbuiltins\nopen\n(V{proof}\nVw\ntR.".encode()
    extension = {
        b"ARROW:extension:name": b"arrow.py_extension_type",
        b"ARROW:extension:metadata": payload,
    }
    schema = pa.schema(
        [
            pa.field("start", pa.int64()),
            pa.field("end", pa.int64()),
            pa.field("demangledName", pa.int64()),
            pa.field("extra", pa.int64(), metadata=extension),
        ]
    )
    table = pa.table([[1000], [2000], [1], [0]], schema=schema)
    write_table(folder / f"{GRAPH_TRACE}.{form}", table)
    write_table(folder / f"{KERNEL}.{form}", table)
    assert kernelscope.read_export(folder).kernels.height == 1
    assert not proof.exists()


def test_a_column_twice_is_refused(folder, form):
    table = pa.table([[1], [2]], names=["start", "START"])
    write_table(folder / f"{KERNEL}.{form}", table)
    with pytest.raises(ExportError, match="duplicate column"):
        kernelscope.read_export(folder)


def test_a_single_table_is_no_export(refused, folder, form):
    line = refused(folder / f"{KERNEL}.{form}")
    assert "Give the folder that it is in" in line


def test_a_full_disk_is_told_with_its_cure(tmp_path):
    error = explain(tmp_path / "x", "database or disk is full")
    assert not isinstance(error, NotAnExport)
    assert "TMPDIR" in error.hint
