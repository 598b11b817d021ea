"""The states that a file can be in, and the forms that an export can have: one row for each.

The forms are changes of one small export, whose figures are worked out by hand: in each of
two processes a prefill of one kernel and a decode step that is one graph replay, with the same
correlation ids in both processes.
"""

import json
import sqlite3
from contextlib import closing

import pytest

import kernelscope
from export_builder import (
    CUPTI,
    DECODE,
    GRAPH_LAUNCH,
    GRAPH_TRACE,
    KERNEL,
    LAUNCH,
    PREFILL,
    RUNTIME,
    ExportBuilder,
    change,
    global_pid,
)
from kernelscope.errors import NotAnExport

PIDS = (1001, 1002)
# (rank, phase) -> steps, kernels per step, kernel ms, busy ms. Prefill is a kernel of 2 µs; decode
# is three of 90 ns with 10 ns between them.
FIGURES = {
    (rank, phase): figures
    for rank in (0, 1)
    for phase, figures in (
        ("prefill", (1, 1, 2000e-6, 2000e-6)),
        ("decode", (1, 3, 270e-6, 270e-6)),
    )
}


def reference(version="2024.2", **options):
    export = ExportBuilder(version, **options)
    for pid in PIDS:
        export.call(LAUNCH, 1.0, 0.5, correlation=7, pid=pid)
        export.call(GRAPH_LAUNCH, 2.0, 0.6, correlation=8, pid=pid)
        export.kernel("nvjet_a", 3.0, 2.0, 7, pid=pid)
        for node in range(3):
            export.kernel("nvjet_a", 6.0 + 0.1 * node, 0.09, 8, pid=pid, node=node)
        export.range(PREFILL, 0.9, 1.6, pid=pid)
        export.range(DECODE, 1.9, 2.7, pid=pid)
    return export


def figures(path):
    summary = kernelscope.summarize(path)
    return {
        (phase.rank, phase.phase): (
            phase.steps,
            phase.kernels_per_step.median,
            phase.kernel_ms,
            phase.busy_ms,
        )
        for phase in summary.phases
    }


def close_to(expected):
    return {key: pytest.approx(values) for key, values in expected.items()}


# What a file is, before any row of it is read


def nvprof(path, _):
    with closing(sqlite3.connect(path)) as database, database:
        for name in ("StringTable", CUPTI + "CONCURRENT_KERNEL", CUPTI + "MARKER"):
            database.execute(f"CREATE TABLE {name} (id INTEGER)")


def other_database(path, _):
    with closing(sqlite3.connect(path)) as database, database:
        database.execute("CREATE TABLE places (name TEXT)")


def holding(content):
    return lambda path, _: path.write_bytes(content)


def truncated(path, whole):
    path.write_bytes(whole[: len(whole) // 2])


STATES = {
    "missing": (lambda *_: None, "There is no file"),
    "no bytes": (holding(b""), "is empty (0 bytes)"),
    "one byte": (holding(b"\0"), "unfinished"),
    "export running or killed": (holding(bytes(8192)), "--force-overwrite true"),
    "truncated copy": (truncated, "is truncated"),
    "report": (holding(b"NVIDIA Tegra Profiler Report "), "nsys export --type sqlite"),
    "stream": (holding(b"NVIDIA Nsight Systems Stream 2025.5"), "QdstrmImporter"),
    "HDF5": (holding(b"\x89HDF\r\n\x1a\n"), "HDF5"),
    "Parquet": (holding(b"PAR1"), "Parquet"),
    "Arrow": (holding(b"\xff\xff\xff\xff"), "Arrow"),
    "gzip": (holding(b"\x1f\x8b\x08"), "gunzip"),
    "zip": (holding(b"PK\x03\x04"), "unzip"),
    "LFS pointer": (holding(b"version https://git-lfs.github.com/spec/v1\n"), "git lfs pull"),
    "nvprof": (nvprof, "nvprof database"),
    "none of our tables": (other_database, "not an nsys export"),
}


@pytest.mark.parametrize(("make", "said"), STATES.values(), ids=STATES)
def test_a_file_that_is_no_export_is_named(make, said, tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path / "nowhere"))
    whole = reference().write(tmp_path / "whole.sqlite").read_bytes()
    path = tmp_path / "run.sqlite"
    make(path, whole)
    with pytest.raises(NotAnExport) as caught:
        kernelscope.read_export(path)
    assert said in str(caught.value)


# The forms of an export: the same figures


def test_joined_by_process_and_correlation_id(write):
    """By correlation id alone each process would have the other's kernels too: 16 instead of 8."""
    path = write(reference())
    assert figures(path) == close_to(FIGURES)
    assert kernelscope.read_export(path).kernels.height == 8


FORMS = {
    "2020: other tables and columns": (lambda: reference("2020.4"), {}, ()),
    "2022: EXPORT_META_DATA": (lambda: reference("2022.4"), {}, ()),
    "2023.4: nodes in CUDA_GRAPH_EVENTS": (lambda: reference("2023.4"), {}, ()),
    "2025.3": (lambda: reference("2025.3"), {}, ()),
    "2025.5: columns in the middle": (lambda: reference("2025.5"), {}, ()),
    "2026.2: one more column of text": (lambda: reference("2026.2"), {}, ()),
    "negative process ids": (lambda: reference(hardware=0xFE), {}, ()),
    "no StringIds": (reference, {"without": ["StringIds"]}, ()),
    "times since 1970": (reference, {"shift_ns": 1_700_000_000_000_000_000}, ()),
    "shuffled rows": (reference, {"shuffle": 1}, ()),
    "views": (reference, {"views": True}, ()),
    "write-ahead log": (reference, {}, ("PRAGMA journal_mode = WAL",)),
    "an open range more": (
        reference,
        {},
        ("INSERT INTO NVTX_EVENTS (start, eventType, text, globalTid) VALUES (2900, 59, 'x', 1)",),
    ),
    "a range without text or id": (
        reference,
        {},
        ('INSERT INTO NVTX_EVENTS (start, "end", eventType, globalTid) VALUES (1, 2, 59, 1)',),
    ),
    "bytes that are not UTF-8": (
        reference,
        {},
        (
            (
                "INSERT INTO NVTX_EVENTS (start, eventType, text, globalTid)"
                " VALUES (1, 59, CAST(x'ff8a' AS TEXT), 1)"
            ),
        ),
    ),
    "labels by id": (
        reference,
        {},
        (
            "INSERT INTO StringIds SELECT 900 + rowid, text FROM NVTX_EVENTS",
            "UPDATE NVTX_EVENTS SET textId = 900 + rowid, text = NULL",
        ),
    ),
}


@pytest.mark.parametrize(("make", "written", "statements"), FORMS.values(), ids=FORMS)
def test_the_form_of_an_export_changes_no_figure(make, written, statements, write):
    path = change(write(make(), **written), *statements)
    # Without strings calls have no names: what launches is not known, whose kernels these are is.
    assert figures(path) == close_to(FIGURES)


# Forms that say less, or hold defects


def test_replays_recorded_as_a_whole_have_a_time_and_no_kernels(write):
    path = write(reference())
    change(path, f"DELETE FROM {KERNEL} WHERE graphNodeId IS NOT NULL")
    with closing(sqlite3.connect(path)) as database, database:
        (create, _) = reference().tables[GRAPH_TRACE]
        database.execute(create)
        for pid in PIDS:
            database.execute(
                f'INSERT INTO {GRAPH_TRACE} (start, "end", deviceId, graphId, graphExecId,'
                " contextId, streamId, correlationId, globalPid)"
                " VALUES (6000, 6290, 0, 1, 2, 1, 7, 8, ?)",
                (global_pid(pid),),
            )
    summary = kernelscope.summarize(path)
    assert summary.phase("decode", 0).opaque_share == 1
    assert summary.phase("decode", 1).kernel_ms == pytest.approx(290e-6)
    assert figures(path)[0, "prefill"] == pytest.approx(FIGURES[0, "prefill"])


def test_all_tables_empty_is_an_error_that_says_so(write, refused):
    assert "no CUDA work was recorded" in refused(write(ExportBuilder("2024.2"), lazy=False))


def test_kernels_without_times_and_reversed_ones_are_counted(write):
    export = reference()
    export.kernel("broken", 0, 0, 7, pid=PIDS[0])
    export.kernel("broken", 9, -1, 7, pid=PIDS[0])
    path = write(export)
    assert figures(path) == close_to(FIGURES)
    assert any(one.startswith("2 kernels") for one in kernelscope.summarize(path).warnings)


def test_both_processes_call_their_gpu_0(write, run):
    export = reference("2025.3")
    for number, pid in enumerate(PIDS):
        export.gpu(number, "NVIDIA H200")
        export.row("TARGET_INFO_CUDA_DEVICE", gpuId=number, cudaId=0, pid=pid)
    path = write(export)
    trace = kernelscope.read_export(path)
    processes = sorted(trace.kernels["process"].unique())
    assert [trace.info.gpu(process, 0).id for process in processes] == [0, 1]
    told = json.loads(run("summarize", path, "--format", "json").stdout)
    assert len(told["ranks"]) == 2


def test_kernels_that_overlap_on_one_stream_are_busy_once(write):
    """Programmatic dependent launch: the next kernel starts 50 ns before the last one ends."""
    export = reference()
    export.kernel("nvjet_a", 6.24, 0.09, 8, pid=PIDS[0], node=3)
    steps, kernels, kernel_ms, busy_ms = figures(write(export))[0, "decode"]
    assert (steps, kernels) == (1, 4)
    assert kernel_ms == pytest.approx(360e-6)
    assert busy_ms == pytest.approx(310e-6)  # 6000-6090, 6100-6190, 6200-6330


def test_an_export_that_has_only_what_is_needed(tmp_path):
    """Six tables with the fewest columns that the official reports accept, made by hand."""
    path = reference().write(tmp_path / "run.sqlite")
    needed = {"META_DATA_EXPORT", "StringIds", "TARGET_INFO_GPU", KERNEL, RUNTIME, "NVTX_EVENTS"}
    with closing(sqlite3.connect(path)) as database, database:
        names = database.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall()
        for (name,) in names:
            if name not in needed:
                database.execute(f"DROP TABLE {name}")
    assert figures(path) == close_to(FIGURES)
