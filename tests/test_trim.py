"""Trimming: the same figures, consistent rows, nothing private, and whole files only."""

from __future__ import annotations

import os
import re
import shutil
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import polars as pl
import pytest

import exports
import kernelscope
from export_builder import (
    CUPTI,
    DECODE,
    EMPTY,
    KERNEL,
    LAUNCH,
    MIXED,
    PID,
    PREFILL,
    RUNTIME,
    TID,
    VERSIONS,
    ExportBuilder,
    global_pid,
    ns,
)
from kernelscope import errors
from kernelscope.nsys import extract as extracting
from kernelscope.nsys.database import open_database
from kernelscope.nsys.derived import read_derived
from kernelscope.nsys.diagnostics import LOST_DATA

FOLDER = os.environ.get("KERNELSCOPE_TRACES")
NSYS = shutil.which("nsys")
CAPTURES = sorted(Path(FOLDER).glob("*.sqlite")) if FOLDER else []
# No fixture of this capture can be summarized: its replays left no rows.
SUMMARIZED = [name for name in exports.NAMES if name != "2023.4/llama-8b_graphlevel"]
LABELLED = [name for name in SUMMARIZED if "torch" not in name]
# What may differ: the number of a step, and what came after the last that was kept. Inferred steps
# are named after their number in the trace.
MAY_DIFFER = {"step", "rank", "wall_ns", "gap_ns", "is_pause"}
SECRET = "s3cr3t"  # noqa: S105 - it is looked for in what is written


def rows(path, sql, *parameters):
    with closing(sqlite3.connect(path)) as database:
        database.text_factory = bytes
        return database.execute(sql, parameters).fetchall()


def tables(path):
    return {name.decode() for (name,) in rows(path, "SELECT name FROM sqlite_master")}


def count(path, table):
    return rows(path, f"SELECT count(*) FROM {table}")[0][0] if table in tables(path) else 0


def run_of(*labels, version="2024.2", **options):
    """Steps with these labels; step n has one kernel of n + 1 µs, a copy and a set."""
    export = ExportBuilder(version, **options).gpu(0, "NVIDIA H200").graph_mode("Node")
    export.window(100 * len(labels) + 1_000)
    for number, label in enumerate(labels):
        kernels = [] if label == EMPTY else [("nvjet_a", number + 1), ("rms_norm_kernel", 1)]
        export.step(label, kernels)
        if label != EMPTY:
            start = 100 * (number + 1)
            export.copy(start + 40, 1, export.call("cudaMemcpyAsync_v3020", start + 30))
            export.memset(start + 45, 1, export.call("cudaMemsetAsync_v3020", start + 32))
    return export


@pytest.fixture
def trim(write, tmp_path):
    """Trims a builder's export (or a path); gives what was said and the file."""

    def trimmed(export, **choice):
        source = export if isinstance(export, Path) else write(export)
        output = tmp_path / "small.sqlite"
        return kernelscope.trim(source, output, overwrite=True, **choice), output

    return trimmed


# The same figures.


def check_same_figures(source, output, choice):
    trimmed = kernelscope.trim(source, output, **choice)
    whole, part = (kernelscope.summarize(path).table("step") for path in (source, output))
    if trimmed.steps is not None:
        whole = whole.filter(pl.col("step").is_in(trimmed.steps))
    columns = [name for name in whole.columns if name not in MAY_DIFFER]
    if not whole["label"][0].startswith("execute_"):
        columns = [name for name in columns if name not in ("label", "start_ns")]
    assert part.select(columns).rows() == whole.select(columns).rows()
    # Wall times are those of the capture or, where the next step was not kept, none.
    walls = list(zip(part["wall_ns"], whole["wall_ns"], strict=True))
    assert all(mine in (None, theirs) for mine, theirs in walls)
    kept = trimmed.steps or tuple(whole["step"])
    followed = [step + 1 in kept for step in kept]
    assert all(mine == theirs for (mine, theirs), has in zip(walls, followed, strict=True) if has)


CHOICES = ({}, {"phase": "decode"}, {"steps": range(1, 4)}, {"scrub": False, "steps": [1, 2]})


@pytest.mark.parametrize("choice", CHOICES, ids=str)
@pytest.mark.parametrize("name", LABELLED)
def test_kept_steps_of_a_fixture_have_the_figures_of_the_whole(name, choice, tmp_path):
    check_same_figures(exports.exported(name), tmp_path / "small.sqlite", choice)


@pytest.mark.parametrize("choice", CHOICES, ids=str)
@pytest.mark.parametrize("path", CAPTURES, ids=lambda path: path.stem)
def test_kept_steps_of_a_capture_have_the_figures_of_the_whole(path, choice, tmp_path):
    if "graphlevel" in path.stem and "nsys2024" not in path.stem:
        pytest.skip("its replays left no rows")
    if "torch" in path.stem and len(choice.get("steps", range(5))) < 3:
        pytest.skip("two steps are too few to be inferred")
    check_same_figures(path, tmp_path / "small.sqlite", choice)


def test_a_whole_capture_keeps_its_shares(tmp_path):
    source = exports.exported("2023.4/qwen35-27b_b1")
    kernelscope.trim(source, tmp_path / "small.sqlite", phase="decode")
    whole, part = map(kernelscope.summarize, (source, tmp_path / "small.sqlite"))
    for by in ("category", "family", "kernel"):
        assert part.table(by).equals(whole.only("decode").table(by))


@pytest.mark.parametrize("version", VERSIONS)
def test_every_version_keeps_tables_columns_and_figures(version, write, tmp_path):
    export = run_of(PREFILL, DECODE, DECODE, DECODE, DECODE, version=version)
    source, output = write(export), tmp_path / "small.sqlite"
    check_same_figures(source, output, {"steps": range(1, 3)})
    assert rows(output, "PRAGMA integrity_check") == [(b"ok",)]
    for table in tables(output) - {"META_DATA_EXPORT"}:
        described = f"SELECT name, type, pk FROM pragma_table_info('{table}')"
        assert rows(output, described) == rows(source, described)
    whole, part = map(kernelscope.read_export, (source, output))
    assert (part.info.exporter, part.info.schema) == (whole.info.exporter, whole.info.schema)
    assert (part.info.gpus, part.info.graph_trace) == (whole.info.gpus, whole.info.graph_trace)
    assert part.info.window_end_ns == whole.info.window_end_ns


@pytest.mark.parametrize(
    "options",
    [{"views": True}, {"shuffle": 1}, {"shift_ns": 10**18}, {"lazy": False}],
    ids=str,
)
def test_odd_forms_of_a_file_keep_their_figures(options, write, tmp_path):
    source = write(run_of(PREFILL, DECODE, DECODE, DECODE), **options)
    check_same_figures(source, tmp_path / "small.sqlite", {"steps": range(1, 3)})
    made = rows(tmp_path / "small.sqlite", "SELECT DISTINCT type FROM sqlite_master")
    assert made == [(b"table",)]


def test_process_ids_that_are_negative_are_found(write, tmp_path):
    source = write(run_of(PREFILL, DECODE, DECODE, DECODE, hardware=0xFE))
    check_same_figures(source, tmp_path / "small.sqlite", {"steps": [1, 2]})


def test_the_last_kept_step_is_not_taken_for_one_that_was_cut(write, tmp_path):
    """A launch of step 1 left no work, and it has fewer kernels than step 0: only at the end of a
    capture does that mean something."""
    export = ExportBuilder("2024.2").window(2_000)
    export.step(DECODE, [("a", 1)] * 3)
    export.step(DECODE, [("a", 1)])
    export.call(LAUNCH, 205)
    export.step(DECODE, [("a", 1)] * 3)
    check_same_figures(write(export), tmp_path / "small.sqlite", {"steps": [0, 1]})


def test_a_step_that_was_cut_stays_incomplete_alone(trim, write):
    export = run_of(DECODE, DECODE, DECODE)
    export.call(LAUNCH, 305)
    source = write(export)
    assert kernelscope.summarize(source).table("step")["status"].to_list()[-1] == "incomplete"
    _, output = trim(source, steps=[2])
    assert kernelscope.summarize(output).table("step")["status"].to_list() == ["incomplete"]


def test_no_wall_time_leads_over_steps_that_were_removed(trim):
    _, output = trim(run_of(DECODE, DECODE, PREFILL, DECODE, DECODE), phase="decode")
    walls = kernelscope.summarize(output).table("step")["wall_ns"].to_list()
    assert [wall is None for wall in walls] == [False, True, False, True]


def test_a_pause_before_the_next_step_stays_no_wall_time(trim):
    export = run_of(*[DECODE] * 5).step(DECODE, [("nvjet_a", 1)], at=9_000)
    export.step(DECODE, [("nvjet_a", 1)])
    _, output = trim(export, steps=[4, 5])
    assert kernelscope.summarize(output).table("step")["wall_ns"].to_list() == [None, None]


def test_a_trimmed_file_can_be_trimmed_again(trim, tmp_path):
    _, output = trim(run_of(PREFILL, DECODE, DECODE, DECODE), phase="decode")
    again = kernelscope.trim(output, tmp_path / "again.sqlite", steps=[1])
    assert again.steps == (1,)
    derived = rows(again.path, "SELECT value FROM META_DATA_EXPORT WHERE name = 'DERIVED_FROM'")
    assert derived == [
        (f"small.sqlite: step 1, by kernelscope {kernelscope.__version__}".encode(),)
    ]


def test_inferred_steps_are_found_again_where_some_recur(trim):
    trimmed, output = trim(exports.exported("2025.3/torch_graph_probe"), steps=range(1, 4))
    assert trimmed.finds_steps
    summary = kernelscope.summarize(output)
    assert summary.step_method == "graph"
    assert summary.table("step")["kernels"].to_list() == [12, 12, 12]


def test_inferred_steps_that_are_too_few_are_said_to_be_lost(run, tmp_path):
    source = exports.exported("2025.3/torch_graph_probe")
    done = run("trim", source, "--steps", "2", "-o", tmp_path / "small.sqlite")
    assert done.exit_code == 0
    assert "warning  the trace has no step labels" in done.stdout
    assert kernelscope.summarize(tmp_path / "small.sqlite").step_method == "none"


# Which steps.


@pytest.mark.parametrize(
    ("choice", "steps"),
    [
        ({"steps": [2]}, (2,)),
        ({"steps": range(1, 3)}, (1, 2)),
        ({"steps": range(3, 10**9)}, (3, 4)),
        ({"phase": "decode"}, (1, 3)),
        ({"phase": "decode", "steps": range(2, 5)}, (3,)),
        # Steps 1 to 4 begin 100, 200, 300 and 400 µs after the first.
        ({"start_ms": 0.1, "end_ms": 0.3}, (1, 2)),
        ({"start_ms": 0.15}, (2, 3, 4)),
        ({"end_ms": 0.05}, (0,)),
        ({}, None),
    ],
    ids=str,
)
def test_the_chosen_steps_are_kept(trim, choice, steps):
    trimmed, output = trim(run_of(PREFILL, DECODE, MIXED, DECODE, PREFILL), **choice)
    assert trimmed.steps == steps
    kept = range(5) if steps is None else steps
    assert rows(output, "SELECT start FROM NVTX_EVENTS ORDER BY start") == [
        (ns(100 * (step + 1)),) for step in kept
    ]
    assert rows(output, f'SELECT max("end" - start) FROM {KERNEL}') == [(ns(max(kept) + 1),)]
    assert [count(output, CUPTI + name) for name in ("KERNEL", "MEMCPY", "MEMSET", "RUNTIME")] == [
        2 * len(kept), len(kept), len(kept), 4 * len(kept),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("choice", "kind", "reason"),
    [
        ({"steps": [7]}, errors.StepError, "has no such step: its steps are numbered 0 to 2"),
        ({"steps": []}, errors.StepError, "has no such step"),
        ({"phase": "mixed"}, errors.PhaseNotFound, "no mixed step .* Phases: decode, prefill"),
        ({"start_ms": 9.0}, errors.StepError, "No step of .* begins in that time"),
    ],
    ids=str,
)
def test_a_choice_that_nothing_meets_is_an_error_and_writes_nothing(
    write, tmp_path, choice, kind, reason
):
    source, output = write(run_of(PREFILL, DECODE, DECODE)), tmp_path / "small.sqlite"
    with pytest.raises(kind, match=reason):
        kernelscope.trim(source, output, **choice)
    assert list(tmp_path.iterdir()) == [source]


def without_steps():
    """Three kernels 100 µs apart, the last by a call of its own process's other thread."""
    export = ExportBuilder("2024.2")
    for number in range(3):
        start = 100 * (number + 1)
        export.kernel(f"kernel_{number}", start + 10, 5, export.call(LAUNCH, start))
    return export


def test_a_trace_without_steps_is_cut_by_time(trim):
    trimmed, output = trim(without_steps(), start_ms=0.05, end_ms=0.15)
    assert trimmed.steps == ()
    assert rows(output, f"SELECT start FROM {KERNEL}") == [(ns(210),)]
    derived = kernelscope.read_export(output).info.derived
    assert "a part of its time" in derived.told


@pytest.mark.parametrize("choice", [{"steps": [0]}, {"phase": "decode"}], ids=str)
def test_a_trace_without_steps_cannot_be_cut_by_them(trim, choice):
    with pytest.raises(errors.StepError, match="No steps are found"):
        trim(without_steps(), **choice)


def test_a_time_in_which_nothing_was_launched_is_an_error(trim):
    with pytest.raises(errors.StepError, match="Nothing was launched"):
        trim(without_steps(), start_ms=50.0)


def test_an_export_without_kernels_is_scrubbed_as_it_is(trim):
    export = ExportBuilder("2024.2")
    export.copy(10, 5, export.call("cudaMemcpyAsync_v3020", 1))
    trimmed, output = trim(export)
    assert trimmed.rows[CUPTI + "MEMCPY"] == (1, 1)
    assert KERNEL not in tables(output)


# Consistent rows.


def test_ids_of_calls_are_those_of_their_process(trim):
    """Two ranks use the same correlation ids; only a step of the first is kept."""
    export = ExportBuilder("2024.2")
    for pid, device in ((1, 0), (2, 1)):
        export._correlation = 100
        for _ in range(2):
            export.step(DECODE, [(f"nvjet_{pid}", 5)] * 3, pid=pid, tid=pid, device=device)
    _, output = trim(export, steps=[1])
    assert rows(output, f"SELECT DISTINCT globalPid FROM {KERNEL}") == [(global_pid(1),)]
    assert rows(output, f"SELECT correlationId FROM {KERNEL}") == [(104,), (105,), (106,)]
    assert b"nvjet_2" not in {value for (value,) in rows(output, "SELECT value FROM StringIds")}


def test_work_without_a_call_is_kept_in_the_time_of_the_kept_steps(trim):
    """Step 1 runs from 200 µs (label) to 212 µs (last kernel)."""
    export = run_of(DECODE, DECODE, DECODE)
    for start, correlation in ((150, 9_001), (211, 9_002), (211, None), (350, 9_003)):
        export.kernel("stray", start, 1, correlation)
    export.kernel("of_another_step", 211, 1, export.call(LAUNCH, 340))
    _, output = trim(export, steps=[1])
    strays = rows(
        output,
        f"SELECT k.start, k.correlationId FROM {KERNEL} k JOIN StringIds s ON s.id = k.shortName"
        " WHERE s.value IN ('stray', 'of_another_step') ORDER BY 2",
    )
    assert strays == [(ns(211), None), (ns(211), 9_002)]


def test_other_ranges_are_kept_where_they_overlap_the_kept_steps(trim):
    """Step 1 runs from 200 to 220 µs."""
    export = run_of(DECODE, DECODE, DECODE)
    for name, start, end in (("before", 100, 190), ("into", 150, 205), ("around", 0, 400),
                             ("open", 190, None), ("behind", 290, 295)):  # fmt: skip
        export.range(name, start, end, tid=TID + 1)
    export.range("mark", 210, None, kind=34)
    export.range("later mark", 310, None, kind=34)
    export.range("NCCL", -5, None, kind=75)
    _, output = trim(export, steps=[1], scrub=False)
    kept = {text.decode() for (text,) in rows(output, "SELECT text FROM NVTX_EVENTS")}
    assert kept == {DECODE, "into", "around", "open", "mark", "NCCL"}
    assert count(output, "NVTX_EVENTS") == 6


@pytest.mark.parametrize("scrub", [True, False])
def test_labels_by_id_stay_readable(trim, scrub):
    export = ExportBuilder("2024.2")
    for _ in range(3):
        export.step(DECODE, [("nvjet_a", 1)], by_id=True)
    _, output = trim(export, steps=[1, 2], scrub=scrub)
    assert kernelscope.read_export(output).find_ranges("execute")["label"].to_list() == [DECODE] * 2


def test_only_what_kept_rows_name_is_kept_of_the_small_tables(write, trim):
    mine, other = global_pid(PID), global_pid(77)
    export = run_of(DECODE, DECODE)
    export.row("PROCESSES", globalPid=mine, pid=PID, name="VLLM::EngineCor")
    export.row("PROCESSES", globalPid=other, pid=77, name="bash")
    path = write(export)
    with closing(sqlite3.connect(path)) as database, database:
        database.executescript(f"""
            INSERT INTO StringIds VALUES (900, 'pt_main_thread'), (901, 'unrelated'), (902, 'none');
            CREATE TABLE ThreadNames (nameId INTEGER NOT NULL, priority INTEGER, globalTid INTEGER);
            INSERT INTO ThreadNames VALUES (900, 20, {mine | 1}), (901, 20, {other | 1});
            CREATE TABLE TARGET_INFO_CUDA_STREAM (streamId INTEGER, processId INTEGER,
                contextId INTEGER);
            INSERT INTO TARGET_INFO_CUDA_STREAM VALUES (7, {PID}, 1), (13, {PID}, 1), (7, 77, 1);
            CREATE TABLE TARGET_INFO_CUDA_CONTEXT_INFO (processId INTEGER, contextId INTEGER);
            INSERT INTO TARGET_INFO_CUDA_CONTEXT_INFO VALUES ({PID}, 1), (77, 1);
        """)
    _, output = trim(path, steps=[0])
    assert rows(output, "SELECT name FROM PROCESSES") == [(b"VLLM::EngineCor",)]
    assert rows(output, "SELECT nameId FROM ThreadNames") == [(900,)]
    assert rows(output, "SELECT * FROM TARGET_INFO_CUDA_STREAM") == [(7, PID, 1)]
    assert rows(output, "SELECT * FROM TARGET_INFO_CUDA_CONTEXT_INFO") == [(PID, 1)]
    strings = {value for (value,) in rows(output, "SELECT value FROM StringIds")}
    names = {b"nvjet_a", b"rms_norm_kernel", b"pt_main_thread"}
    calls = {LAUNCH.encode(), b"cudaMemcpyAsync_v3020", b"cudaMemsetAsync_v3020"}
    assert strings == names | calls


@pytest.mark.parametrize("table", ["CUDA_GRAPH_EVENTS", "CUDA_GRAPH_NODE_EVENTS"])
@pytest.mark.parametrize(("nodes", "kept"), [(3, 3), (1_001, 0)])
def test_rows_of_graph_nodes_are_kept_unless_they_are_many(write, trim, table, nodes, kept):
    export = ExportBuilder("2024.2")
    for _ in range(2):
        export.step(DECODE, graph=[("nvjet_a", 0.01)] * nodes)
    path = write(export)
    made = [(1, 2, 77, global_pid(PID) | TID, 2 << 32 | node) for node in (*range(nodes), 5_000)]
    with closing(sqlite3.connect(path)) as database, database:
        database.execute(
            f"CREATE TABLE {table} (start INTEGER, end INTEGER, eventClass INTEGER,"
            " globalTid INTEGER, graphNodeId INTEGER)"
        )
        database.executemany(f"INSERT INTO {table} VALUES (?, ?, ?, ?, ?)", made)
    _, output = trim(path, steps=[0])
    assert count(output, table) == kept


# Nothing private.


PLANTED = {
    "META_DATA_CAPTURE": {"name": "PROCESS_0:ENVIRONMENT_VARIABLE", "value": f"TOKEN={SECRET}"},
    "META_DATA_EXPORT": {"name": "EXPORT_PARAM_INPUT_PATH", "value": f"/home/{SECRET}/x.nsys-rep"},
    "PROCESSES": {"globalPid": global_pid(77), "pid": 77, "name": f"/usr/bin/{SECRET}"},
    "DIAGNOSTIC_EVENT": {
        "timestamp": 1, "timestampType": 1, "source": 1, "severity": 2,
        "text": f"CUPTI dropped records of /home/{SECRET}/run", "globalPid": global_pid(PID),
    },
}  # fmt: skip
OTHER_TABLES = f"""
CREATE TABLE TARGET_INFO_SYSTEM_ENV (
    globalVid INTEGER NOT NULL, devStateName TEXT NOT NULL, name TEXT NOT NULL,
    nameEnum INTEGER NOT NULL, value TEXT NOT NULL);
INSERT INTO TARGET_INFO_SYSTEM_ENV VALUES
    (1, '{SECRET}', 'Hostname', 1, '{SECRET}'), (1, '{SECRET}', 'NvDriverVersion', 205, '580.95'),
    (1, 'x', 'CudaDriverVersion', 611, '{SECRET}');
CREATE TABLE TARGET_INFO_NIC_INFO (name TEXT, GUID TEXT);
INSERT INTO TARGET_INFO_NIC_INFO VALUES ('{SECRET}', '{SECRET}');
CREATE TABLE ANALYSIS_FILE (id INTEGER, filename TEXT, content BLOB);
INSERT INTO ANALYSIS_FILE VALUES (1, '/home/{SECRET}', '{SECRET}');
CREATE TABLE ENUM_CUDA_MEM_KIND (id INTEGER, name TEXT, label TEXT);
INSERT INTO ENUM_CUDA_MEM_KIND VALUES (1, 'PINNED', '/home/{SECRET}');
CREATE TABLE TARGET_INFO_SESSION_START_TIME (utcEpochNs INTEGER, utcTime TEXT, localTime TEXT);
INSERT INTO TARGET_INFO_SESSION_START_TIME VALUES (1, '{SECRET}', '{SECRET}');
CREATE TABLE UNKNOWN_TABLE (text TEXT);
INSERT INTO UNKNOWN_TABLE VALUES ('{SECRET}');
CREATE VIEW UNKNOWN_VIEW AS SELECT '{SECRET}' AS text;
ALTER TABLE {KERNEL} ADD COLUMN futureText TEXT;
UPDATE {KERNEL} SET futureText = '{SECRET}';
UPDATE {KERNEL} SET gridZ = '{SECRET}', launchType = '{SECRET}';
"""


def with_secrets():
    """A trace with something private in every place that holds text."""
    export = run_of(PREFILL, DECODE, DECODE)
    for table, row in PLANTED.items():
        export.row(table, **row)
    thread = global_pid(PID) | TID
    names = [f"/opt/{SECRET}/worker", f"{SECRET}.example.com", f"run --key={SECRET}"]
    for name in names:
        export.row("PROCESSES", globalPid=global_pid(PID), pid=PID, name=name)
        export.row("ThreadNames", nameId=export.string(name), priority=1, globalTid=thread)
    export.gpu(1, f"GPU of {SECRET}@host", uuid=f"GPU-{SECRET}", busLocation=f"0000:{SECRET}")
    labels = [
        f"{DECODE} /home/{SECRET}", f"/home/{SECRET}/model", f"request {SECRET}", SECRET,
        f"model.layers.3.self_attn of {SECRET}",
    ]  # fmt: skip
    for place, label in enumerate(labels):
        export.range(label, 205 + place, 215, tid=TID + 1)
        export.range(label, 205 + place, 215, by_id=True, tid=TID + 1)
    export.row(
        "NVTX_EVENTS", start=ns(205), end=ns(206), eventType=59, globalTid=thread, text="a",
        jsonText=SECRET, jsonTextId=export.string(f"json {SECRET}"),
    )  # fmt: skip
    export.string(f"log text of nobody: {SECRET}")
    return export


@pytest.fixture
def secret_trace(write):
    path = write(with_secrets())
    with closing(sqlite3.connect(path)) as database, database:
        database.executescript(OTHER_TABLES)
    return path


@pytest.mark.parametrize("choice", [{}, {"steps": [1]}, {"phase": "decode"}], ids=str)
def test_nothing_private_is_anywhere_in_the_bytes_of_the_output(secret_trace, trim, choice):
    assert secret_trace.read_bytes().count(SECRET.encode()) > 30
    trimmed, output = trim(secret_trace, **choice)
    assert SECRET.encode() not in output.read_bytes()
    assert {"TARGET_INFO_NIC_INFO", "ANALYSIS_FILE", "UNKNOWN_TABLE", "UNKNOWN_VIEW"} <= set(
        trimmed.dropped
    )
    assert f"{KERNEL}.futureText" in trimmed.emptied
    assert "TARGET_INFO_GPU.uuid" in trimmed.emptied
    assert "TARGET_INFO_GPU.busLocation" in trimmed.emptied


def test_what_is_useful_and_not_private_stays(secret_trace, trim):
    trimmed, output = trim(secret_trace, steps=[1])
    labels = {text.decode() for (text,) in rows(output, "SELECT text FROM NVTX_EVENTS")}
    # Equal texts become equal ranges; a label of an engine or a layer is kept up to its end.
    assert labels == {
        DECODE, "range 1", "range 2", "range 3", "range 4", "model.layers.3.self_attn",
    }  # fmt: skip
    # The label with a path behind it is a step of its own, which was not chosen.
    assert trimmed.replaced == {"NVTX_EVENTS": 5}
    assert rows(output, "SELECT text FROM DIAGNOSTIC_EVENT") == [(b"CUPTI dropped records",)]
    env = rows(output, "SELECT devStateName, name, value FROM TARGET_INFO_SYSTEM_ENV ORDER BY name")
    assert env == [(b"", b"CudaDriverVersion", b""), (b"", b"NvDriverVersion", b"580.95")]
    assert (b"worker",) in rows(output, "SELECT name FROM PROCESSES")
    capture = rows(output, "SELECT name, value FROM META_DATA_CAPTURE")
    assert capture == [(b"PROCESS_0:CUDA_GRAPH_TRACE_OPTIONS:MODE", b"Node")]


@pytest.mark.parametrize("part", [part for part, _ in LOST_DATA])
def test_messages_of_lost_data_are_still_understood(trim, part):
    export = run_of(DECODE, DECODE)
    text = f"{SECRET}: {part} at {SECRET}"
    export.row("DIAGNOSTIC_EVENT", timestamp=1, severity=3, text=text, globalPid=global_pid(PID))
    _, output = trim(export)
    (finding,) = kernelscope.diagnose(output).problems
    assert part in finding.message.casefold()
    assert SECRET not in finding.message


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("void f<(lambda at /home/me/src/x.cu:12:3)>(int)", "void f<(lambda at x.cu:12:3)>(int)"),
        ("k<C:\\work\\me\\x.cu>", "k<x.cu>"),
        ("void at::native::f<(int)4>(T1, T2)", "void at::native::f<(int)4>(T1, T2)"),
    ],
)
def test_folders_in_the_names_of_kernels_are_removed(trim, name, told):
    export = ExportBuilder("2024.2")
    export.step(DECODE, [(name, 1)])
    _, output = trim(export)
    assert (told.encode(),) in rows(output, "SELECT value FROM StringIds")


def test_without_scrubbing_every_table_is_kept(secret_trace, trim):
    trimmed, output = trim(secret_trace, steps=[1], scrub=False)
    assert trimmed.dropped == {}
    assert tables(output) >= tables(secret_trace)
    assert count(output, "META_DATA_CAPTURE") == count(secret_trace, "META_DATA_CAPTURE")
    assert count(output, KERNEL) == 2
    assert not trimmed.emptied


def test_without_scrubbing_unknown_tables_of_calls_follow_the_calls(write, trim):
    path = write(run_of(DECODE, DECODE))
    with closing(sqlite3.connect(path)) as database, database:
        database.execute(
            f"CREATE TABLE FUTURE AS SELECT globalTid, correlationId, 'x' AS text FROM {RUNTIME}"
        )
    _, output = trim(path, steps=[1], scrub=False)
    assert count(output, "FUTURE") == count(output, RUNTIME) == 4


# Where it comes from.


def test_a_derived_trace_says_so(trim, run):
    _, output = trim(run_of(PREFILL, DECODE, DECODE), steps=[1, 2])
    told = f"trace0.sqlite: steps 1 to 2, by kernelscope {kernelscope.__version__}"
    assert kernelscope.read_export(output).info.derived.told == told
    assert f"derived from {told}" in run("summarize", output).stdout
    assert f"Derived from another file, {told}" in " ".join(run("doctor", output).stdout.split())
    for form in ("json", "markdown"):
        assert "erived" in run("summarize", output, "--format", form).stdout


@pytest.mark.parametrize(
    "told",
    [
        "", "{", "[]", "null", '{"method": "nvtx"}', "[" * 100_000,
        '{"method": "nvtx", "steps": 2, "status": {"0": "<b>"}, "unfollowed": []}',
        '{"method": "nvtx", "steps": 2, "status": {}, "unfollowed": ["x"]}',
        '{"method": "nvtx", "steps": 2, "status": [], "unfollowed": []}',
        '{"method": "nvtx", "steps": 1e999, "status": {}, "unfollowed": []}',
    ],
    ids=lambda told: told[:60],
)  # fmt: skip
def test_what_a_file_says_of_its_steps_is_not_believed_blindly(write, told):
    export = run_of(DECODE, DECODE)
    export.row("META_DATA_EXPORT", name="DERIVED_FROM", value="\x1b[31m<b>evil</b>")
    export.row("META_DATA_EXPORT", name="DERIVED_STEPS", value=told)
    path = write(export)
    assert read_derived(open_database(path)).told == "\x1b[31m<b>evil</b>"
    summary = kernelscope.summarize(path)
    assert summary.table("step")["status"].to_list() == ["complete", "complete"]
    for form in ("text", "markdown", "json"):
        assert "\x1b" not in kernelscope.render(summary, form)


def test_statuses_do_not_apply_to_other_steps(write):
    export = run_of(DECODE, DECODE)
    export.row("META_DATA_EXPORT", name="DERIVED_FROM", value="x")
    three = '{"method": "nvtx", "steps": 3, "status": {"0": "incomplete"}, "unfollowed": [0]}'
    export.row("META_DATA_EXPORT", name="DERIVED_STEPS", value=three)
    steps = kernelscope.summarize(write(export)).table("step")
    assert steps["status"].to_list() == ["complete", "complete"]
    assert steps["wall_ns"][0] is not None


def test_a_step_without_kernels_is_not_complete_whatever_the_file_says(write):
    """Without API calls no kernel can be tied to a step; found by mutations of a fixture."""
    export = run_of(DECODE, DECODE)
    export.row("META_DATA_EXPORT", name="DERIVED_FROM", value="x")
    two = '{"method": "nvtx", "steps": 2, "status": {}, "unfollowed": []}'
    export.row("META_DATA_EXPORT", name="DERIVED_STEPS", value=two)
    summary = kernelscope.summarize(write(export, without=[RUNTIME]))
    assert summary.table("step")["status"].to_list() == ["no kernels", "no kernels"]
    assert summary.phases == ()


# Whole files only.


def test_the_same_input_gives_the_same_bytes(write, tmp_path):
    source = write(with_secrets())
    outputs = [tmp_path / f"small{number}.sqlite" for number in range(2)]
    for output in outputs:
        kernelscope.trim(source, output, steps=[1, 2])
    assert outputs[0].read_bytes() == outputs[1].read_bytes()


def test_the_source_is_not_touched(write, trim):
    source = write(run_of(DECODE, DECODE))
    source.chmod(0o444)
    before = source.read_bytes()
    trim(source, steps=[1])
    assert source.read_bytes() == before


def test_an_output_that_exists_is_kept_unless_forced(write, run, tmp_path):
    source, output = write(run_of(DECODE)), tmp_path / "small.sqlite"
    output.write_text("mine")
    done = run("trim", source, "-o", output)
    assert (done.exit_code, output.read_text()) == (1, "mine")
    assert "exists" in done.stderr
    assert run("trim", source, "-o", output, "--force").exit_code == 0
    assert kernelscope.summarize(output).phase("decode").steps == 1


@pytest.mark.parametrize("how", ["itself", "link", "hard link"])
def test_the_trace_itself_is_never_written_to(write, run, tmp_path, how):
    source = write(run_of(DECODE))
    before = source.read_bytes()
    target = source if how == "itself" else tmp_path / "other.sqlite"
    if how == "link":
        target.symlink_to(source)
    elif how == "hard link":
        target.hardlink_to(source)
    done = run("trim", source, "-o", target, "--force")
    assert done.exit_code == 1
    assert "is the trace itself" in done.stderr
    assert source.read_bytes() == before


def test_a_folder_that_is_not_there_is_explained(write, run, tmp_path):
    done = run("trim", write(run_of(DECODE)), "-o", tmp_path / "none" / "small.sqlite")
    assert done.exit_code == 1
    assert "cannot be written" in done.stderr


@pytest.mark.parametrize("moment", ["create", "save"])
@pytest.mark.parametrize("exists", [True, False])
def test_an_interruption_leaves_nothing(write, tmp_path, monkeypatch, moment, exists):
    source, output = write(run_of(DECODE)), tmp_path / "small.sqlite"
    if exists:
        output.write_text("mine")
    before = {path: path.read_bytes() for path in tmp_path.iterdir()}

    def interrupted(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(extracting.Extract, moment, interrupted)
    with pytest.raises(KeyboardInterrupt):
        kernelscope.trim(source, output, overwrite=True)
    assert {path: path.read_bytes() for path in tmp_path.iterdir()} == before


def test_a_full_disk_is_said_and_leaves_nothing(write, run, tmp_path, monkeypatch):
    """SQLite reports a limit on the pages of a database as a full disk."""
    source = write(run_of(DECODE))
    connect = extracting.connect

    def connect_to_little(uri):
        connection = connect(uri)
        connection.execute("PRAGMA max_page_count = 3")
        return connection

    monkeypatch.setattr(extracting, "connect", connect_to_little)
    done = run("trim", source, "-o", tmp_path / "small.sqlite")
    assert done.exit_code == 1
    assert "disk for temporary files is full" in done.stderr
    assert list(tmp_path.iterdir()) == [source]


def test_a_limit_on_the_size_of_files_is_said_and_leaves_nothing(write, tmp_path):
    """As a full disk under the output does, but for the output's own process only."""
    source = write(run_of(DECODE))
    code = (
        "import resource, signal; signal.signal(signal.SIGXFSZ, signal.SIG_IGN); "
        "resource.setrlimit(resource.RLIMIT_FSIZE, (8192, 8192)); "
        f"import kernelscope; kernelscope.trim({str(source)!r}, {str(tmp_path / 'small')!r})"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=False,
    )
    assert "OutputError" in done.stderr
    assert "cannot be written" in done.stderr
    assert list(tmp_path.iterdir()) == [source]


@pytest.mark.parametrize("name", ["a b#c?d%20e.sqlite", "Zeit–spur µs.sqlite", "'; DROP.sqlite"])
def test_odd_names_of_files_are_no_matter(write, tmp_path, name):
    folder = tmp_path / "odd #?% folder"
    folder.mkdir()
    source = folder / name
    write(run_of(DECODE, DECODE)).rename(source)
    output = folder / f"small {name}"
    kernelscope.trim(source, output, steps=[1])
    assert sorted(folder.iterdir()) == sorted([source, output])
    assert kernelscope.read_export(output).info.derived.told.startswith(name)


# Nothing of the file is executed.


def test_nothing_that_the_file_defines_is_executed_or_copied(write, trim):
    path = write(run_of(DECODE, DECODE))
    with closing(sqlite3.connect(path)) as database, database:
        database.executescript(f"""
            CREATE TABLE "evil""; DROP TABLE StringIds; --" ("x""y" "INTEGER); DROP TABLE x; --");
            INSERT INTO "evil""; DROP TABLE StringIds; --" VALUES (1);
            CREATE TRIGGER boom AFTER INSERT ON {KERNEL} BEGIN SELECT raise(ABORT, 'boom'); END;
            CREATE INDEX by_expression ON {KERNEL} (abs(start));
            CREATE VIRTUAL TABLE searched USING fts5 (text);
        """)
    for scrub in (True, False):
        _, output = trim(path, steps=[1], scrub=scrub)
        assert {kind for (kind,) in rows(output, "SELECT DISTINCT type FROM sqlite_master")} == {
            b"table"
        }
        assert count(output, KERNEL) == 2
        assert "searched" not in tables(output)
    (evil,) = [name for name in tables(output) if name.startswith("evil")]
    columns = rows(output, "SELECT name, type FROM pragma_table_info(?)", evil)
    assert columns == [(b'x"y', b"INTEGER")]


def test_a_damaged_export_is_explained_and_nothing_is_left(write, run, tmp_path):
    source = write(run_of(*[DECODE] * 60))
    data = bytearray(source.read_bytes())
    page = int(rows(source, "SELECT rootpage FROM sqlite_master WHERE name = ?", RUNTIME)[0][0])
    data[4096 * (page - 1) : 4096 * page] = bytes(4096)
    source.write_bytes(data)
    done = run("trim", source, "-o", tmp_path / "small.sqlite")
    assert done.exit_code == 1
    assert "is damaged" in done.stderr
    assert list(tmp_path.iterdir()) == [source]


# The command.


def test_the_command_says_what_it_kept_and_removed(secret_trace, run, tmp_path):
    done = run("trim", secret_trace, "--steps", "1", "-o", tmp_path / "small.sqlite")
    assert done.exit_code == 0
    text = " ".join(done.stdout.split())
    assert "small.sqlite: step 1, 0." in text
    assert re.search(r"CUPTI_ACTIVITY_KIND_KERNEL 6 2\b", text)
    assert re.search(r"removed \d tables with all rows: .*UNKNOWN_TABLE \(1\)", text)
    assert "replaced 5 labels that no engine or library is known to write" in text
    assert "remains names of kernels" in text
    assert SECRET not in done.stdout
    assert max(map(len, done.stdout.splitlines()[1:])) <= 100


def test_without_scrubbing_the_command_warns(run, write, tmp_path):
    done = run("trim", write(run_of(DECODE)), "--no-scrub", "-o", tmp_path / "small.sqlite")
    assert "Do not share the file" in " ".join(done.stdout.split())


@pytest.mark.parametrize(
    ("options", "steps"),
    [
        (["--steps", "1"], "step 1"),
        (["--steps", "1:3"], "steps 1 to 2"),
        (["--steps", "2:"], "steps 2 to 4"),
        (["--phase", "decode"], "steps 1, 3"),
        (["--start", "0.1", "--end", "0.3"], "steps 1 to 2"),
        ([], "all steps"),
    ],
    ids=str,
)
def test_options_reach_the_library(write, run, tmp_path, options, steps):
    source = write(run_of(PREFILL, DECODE, MIXED, DECODE, PREFILL))
    done = run("trim", source, "-o", tmp_path / "small.sqlite", *options)
    assert f": {steps}, " in done.stdout.splitlines()[0]


@pytest.mark.parametrize("window", ["", ":", "a:b", "1:2:3", "-1", "x"])
def test_steps_that_are_no_numbers_are_a_usage_error(write, run, tmp_path, window):
    done = run("trim", write(run_of(DECODE)), "-o", tmp_path / "s.sqlite", f"--steps={window}")
    assert done.exit_code == 2


def test_an_output_must_be_named(write, run):
    assert run("trim", write(run_of(DECODE))).exit_code == 2


# Other tools.


@pytest.mark.skipif(NSYS is None, reason="nsys is not on the path")
@pytest.mark.parametrize("scrub", [True, False])
def test_official_reports_run_and_count_the_same(tmp_path, scrub):
    output = tmp_path / "small.sqlite"
    kernelscope.trim(exports.exported("2023.4/qwen35-27b_b1"), output, steps=[1, 2], scrub=scrub)
    reports = "cuda_gpu_kern_sum,cuda_gpu_trace,cuda_api_sum,nvtx_sum,nvtx_gpu_proj_sum"
    done = subprocess.run(
        [NSYS, "stats", "--report", reports, "--format", "csv", str(output)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0
    assert "ERROR" not in done.stdout + done.stderr
    assert "SKIPPED" not in done.stdout
    kernels = done.stdout.split("Name\n")[1].split("\n\n")[0].splitlines()
    assert sum(int(line.split(",")[2]) for line in kernels) == 2 * 1023
