"""Input that cannot be summarized: one line that says what was found and what to do.

The ``refused`` fixture holds for every case: exit code 1, a single line on standard error,
nothing on standard output, no traceback, and no file written beside the input.
"""

import gc
import gzip
import os
import sqlite3
import subprocess
import sys
import zipfile
from contextlib import closing

import pytest

import kernelscope
from export_builder import (
    DECODE,
    GRAPH_LAUNCH,
    GRAPH_TRACE,
    LAUNCH,
    PREFILL,
    ExportBuilder,
)
from kernelscope.errors import ExportError, NoKernels, NotAnExport

REPORT = b"NVIDIA Tegra Profiler Report \0\0\0\0 version 2024.2"
STREAM = b"NVIDIA Nsight Systems Stream 2025.5.2 ..."
EXPORT_COMMAND = "nsys export --type sqlite -o run.sqlite run.nsys-rep"


@pytest.fixture
def without_nsys(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path / "nowhere"))


@pytest.fixture
def stand_in(monkeypatch, tmp_path):
    """Puts a program called nsys on the path; it runs the given shell lines."""

    def install(*lines):
        folder = tmp_path / "bin"
        folder.mkdir()
        program = folder / "nsys"
        program.write_text("\n".join(["#!/bin/sh", *lines]) + "\n")
        program.chmod(0o755)
        monkeypatch.setenv("PATH", f"{folder}{os.pathsep}/usr/bin{os.pathsep}/bin")

    return install


def make(path, content):
    path.write_bytes(content)
    return path


# What the file is


def test_a_file_that_is_not_there(refused, tmp_path):
    assert f"There is no file {tmp_path / 'no.sqlite'}" in refused(tmp_path / "no.sqlite")
    assert not (tmp_path / "no.sqlite").exists()


def test_a_file_in_a_folder_that_is_not_there(refused, tmp_path):
    assert "There is no file" in refused(tmp_path / "no" / "no.sqlite")


def test_a_folder(refused, tmp_path):
    folder = tmp_path / "run"
    folder.mkdir()
    line = refused(folder)
    assert f"{folder} is a folder. Give the .sqlite file inside it" in line
    assert "nsys export --type parquetdir or arrowdir" in line


def test_a_pipe_is_not_waited_for(refused, tmp_path):
    os.mkfifo(tmp_path / "pipe")
    assert "not a regular file" in refused(tmp_path / "pipe")


def test_an_empty_file(refused, tmp_path):
    line = refused(make(tmp_path / "run.sqlite", b""))
    assert "is empty (0 bytes)" in line
    assert "--force-overwrite true" in line


@pytest.mark.parametrize("size", [1, 100, 4096, 100_000])
def test_an_unfinished_export_begins_with_zeros(size, refused, tmp_path):
    line = refused(make(tmp_path / "run.sqlite", bytes(size)))
    assert "unfinished" in line
    assert "--force-overwrite true" in line


@pytest.mark.parametrize("kept", [4096 * 2, 4096 + 17, 512, 100, 16])
def test_a_truncated_copy_names_both_sizes(kept, refused, write, run_export):
    path = write(run_export)
    whole = path.read_bytes()
    path.write_bytes(whole[:kept])
    line = refused(path)
    assert "truncated" in line
    assert f"{kept:,} bytes" in line
    if kept >= 100:
        assert f"{len(whole):,}" in line
    assert "Copy it again" in line


def test_a_header_that_is_not_sqlite(refused, tmp_path):
    line = refused(make(tmp_path / "run.sqlite", b"name,value\n1,2\n"))
    assert "is not an SQLite file (it begins with b'name,value" in line
    assert "nsys export --type sqlite" in line


@pytest.mark.parametrize(
    ("content", "what", "advice"),
    [
        (STREAM, "raw nsys stream (.qdstrm)", "QdstrmImporter -i run.file"),
        (b"\x89HDF\r\n\x1a\n", "HDF5", "nsys export --type sqlite"),
        (b"PAR1....", "Parquet", "nsys export --type sqlite"),
        (b"\xff\xff\xff\xff....", "Arrow", "nsys export --type sqlite"),
        (b"ARROW1..", "Arrow", "nsys export --type sqlite"),
        (gzip.compress(b"SQLite format 3\0", mtime=0), "gzip", "gunzip run.file"),
        (b"\xfd7zXZ\0", "xz", "xz -d run.file"),
        (b"\x28\xb5\x2f\xfd", "zstd", "unzstd run.file"),
        (b"version https://git-lfs.github.com/spec/v1\n", "Git LFS pointer", "git lfs pull"),
    ],
)
def test_another_kind_of_file_is_named_with_its_cure(content, what, advice, refused, tmp_path):
    line = refused(make(tmp_path / "run.file", content))
    assert what in line
    assert advice in line


def test_a_zip_archive(refused, tmp_path):
    path = tmp_path / "run.zip"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("run.sqlite", b"x")
    line = refused(path)
    assert "zip archive" in line
    assert "unzip run.zip" in line


def test_an_nvprof_database(refused, tmp_path):
    path = tmp_path / "old.nvvp"
    with closing(sqlite3.connect(path)) as database, database:
        database.execute("CREATE TABLE StringTable (_id_ INTEGER, value TEXT)")
        database.execute("CREATE TABLE CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL (start INTEGER)")
        database.execute("CREATE TABLE CUPTI_ACTIVITY_KIND_RUNTIME (start INTEGER)")
    line = refused(path)
    assert "nvprof database" in line
    assert "Capture with nsys" in line


def test_another_sqlite_database(refused, tmp_path):
    path = tmp_path / "places.sqlite"
    with closing(sqlite3.connect(path)) as database, database:
        database.execute("CREATE TABLE places (name TEXT)")
    assert "is an SQLite database but not an nsys export (1 other tables)" in refused(path)


def test_an_sqlite_database_without_any_table(refused, tmp_path):
    path = tmp_path / "blank.sqlite"
    with closing(sqlite3.connect(path)) as database:
        database.execute("PRAGMA user_version = 1")
    assert "not an nsys export" in refused(path)


def test_a_path_with_line_breaks_and_escapes_stays_on_one_line(refused, tmp_path):
    line = refused(tmp_path / "a\nb\x1b[31mc.sqlite")
    assert "\x1b" not in line


# A report in place of its export


@pytest.mark.usefixtures("without_nsys")
@pytest.mark.parametrize("name", ["run.nsys-rep", "run.qdrep", "run.sqlite"])
def test_a_report_without_nsys_gives_the_command_that_exports_it(name, refused, tmp_path):
    line = refused(make(tmp_path / name, REPORT))
    assert "nsys report (.nsys-rep), and nsys is not on the path" in line
    assert "nsys export --type sqlite -o " in line
    assert line.endswith(f".sqlite {name}")


@pytest.mark.usefixtures("without_nsys")
def test_the_command_does_not_overwrite_the_report_itself(refused, tmp_path):
    # A report that was renamed to .sqlite: -o run.sqlite would be the input.
    line = refused(make(tmp_path / "run.sqlite", REPORT))
    assert "-o run.sqlite run.sqlite" not in line


@pytest.mark.usefixtures("without_nsys")
def test_the_command_can_be_pasted_whatever_the_name(refused, tmp_path):
    line = refused(make(tmp_path / "my run.nsys-rep", REPORT))
    assert "-o 'my run.sqlite' 'my run.nsys-rep'" in line


def test_a_report_is_exported_where_nsys_is_on_the_path(stand_in, run, write, run_export, tmp_path):
    exported = write(run_export)
    report = make(tmp_path / "run.nsys-rep", REPORT)
    stand_in(
        '[ "$1 $2 $3 $4" = "export --type sqlite --output" ] || exit 9',
        f'[ "$6" = "{report}" ] || exit 8',
        f'cp "{exported}" "$5"',
    )
    result = run("summarize", report, "--format", "json")
    assert result.exit_code == 0, result.stderr
    assert f'"path": "{report}"' in result.stdout
    assert sorted(entry.name for entry in tmp_path.iterdir()) == [
        "bin",
        "run.nsys-rep",
        exported.name,
    ]


def test_the_temporary_export_goes_with_the_trace(
    stand_in, write, run_export, tmp_path, monkeypatch
):
    exported = write(run_export)
    report = make(tmp_path / "run.nsys-rep", REPORT)
    stand_in(f'cp "{exported}" "$5"')
    temporary = tmp_path / "tmp"
    temporary.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(temporary))
    trace = kernelscope.read_export(report)
    assert trace.kernels.height == 14
    assert len(list(temporary.iterdir())) == 1
    del trace
    gc.collect()
    assert list(temporary.iterdir()) == []


def test_the_temporary_export_goes_with_a_refusal(stand_in, refused, tmp_path, monkeypatch):
    stand_in('touch "$5"', "exit 1")
    temporary = tmp_path / "tmp"
    temporary.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(temporary))
    refused(make(tmp_path / "run.nsys-rep", REPORT))
    gc.collect()
    assert list(temporary.iterdir()) == []


def test_a_failing_nsys_is_quoted(stand_in, refused, tmp_path):
    stand_in("echo 'Report was created in Nsight Systems version (2026.1.1)' >&2", "exit 3")
    line = refused(make(tmp_path / "run.nsys-rep", REPORT))
    assert "nsys could not export" in line
    assert "exit code 3" in line
    assert "Report was created in Nsight Systems version (2026.1.1)" in line
    assert EXPORT_COMMAND in line


def test_an_nsys_that_writes_nothing_is_a_failure(stand_in, refused, tmp_path):
    stand_in("exit 0")
    assert "nsys could not export" in refused(make(tmp_path / "run.nsys-rep", REPORT))


def test_an_nsys_that_cannot_be_started_is_a_failure(stand_in, refused, tmp_path):
    stand_in("")
    (tmp_path / "bin" / "nsys").write_text("#!/no/such/interpreter\n")
    assert "nsys" in refused(make(tmp_path / "run.nsys-rep", REPORT))


def test_what_is_wrong_with_an_exported_report_is_told_of_the_report(
    stand_in, refused, write, tmp_path
):
    export = ExportBuilder("2024.2")
    export.range(DECODE, 1, 2)
    stand_in(f'cp "{write(export)}" "$5"')
    line = refused(make(tmp_path / "run.nsys-rep", REPORT))
    assert f"{tmp_path / 'run.nsys-rep'}" in line
    assert "no CUDA work was recorded" in line


# Damage that SQLite does not see


@pytest.mark.parametrize("value", ["'text'", "x'8a00ff'", "CAST(x'8a00ff' AS TEXT)"])
@pytest.mark.parametrize("column", ["start", "correlationId"])
def test_a_value_that_is_no_number(value, column, refused, write, export):
    export.step(DECODE, [("nvjet_a", 5)])
    path = write(export)
    with closing(sqlite3.connect(path)) as database, database:
        database.execute(f"UPDATE CUPTI_ACTIVITY_KIND_KERNEL SET {column} = {value}")
    assert "there is text where numbers belong" in refused(path)


def test_an_end_of_a_range_that_is_no_number(refused, write, export):
    export.step(DECODE, [("nvjet_a", 5)])
    path = write(export)
    with closing(sqlite3.connect(path)) as database, database:
        database.execute("UPDATE NVTX_EVENTS SET \"end\" = 'text'")
    assert "there is text where numbers belong (NVTX_EVENTS" in refused(path)


def test_a_damaged_table_name(refused, write, export):
    export.step(DECODE, [("nvjet_a", 5)])
    path = write(export)
    content = path.read_bytes()
    damaged = content.replace(b"CUPTI_ACTIVITY_KIND_KERNEL", b"\x8aUPTI_ACTIVITY_KIND_KERNEL", 1)
    assert damaged != content
    path.write_bytes(damaged)
    line = refused(path)
    assert "is damaged" in line
    assert "Copy it again" in line


# No GPU kernels: which case it is


def test_no_cuda_at_all_says_how_to_trace_the_worker(refused, write, export):
    export.range(DECODE, 1, 2)
    line = refused(write(export))
    assert "no CUDA work was recorded, neither kernels nor launch calls" in line
    assert "-t cuda,nvtx" in line
    assert "VLLM_WORKER_MULTIPROC_METHOD=spawn" in line


@pytest.mark.parametrize("lazy", [True, False])
def test_launch_calls_without_kernels_are_counted(lazy, refused, write, export):
    for number in range(3):
        export.call(LAUNCH, number)
    export.call(GRAPH_LAUNCH, 10)
    line = refused(write(export, lazy=lazy))
    assert "no GPU kernels although 4 launch calls (1 of them graph launches)" in line
    assert "CUPTI" in line
    assert "flush" in line


def test_all_tables_empty(refused, write, export):
    assert "no CUDA work was recorded" in refused(write(export, lazy=False))


def test_copies_without_kernels_say_that_the_window_missed_the_model(refused, write, export):
    export.copy(10, 5, export.call("cudaMemcpyAsync_v3020", 1))
    line = refused(write(export))
    assert "memory copies but no GPU kernels" in line
    assert "--capture-range=cudaProfilerApi" in line


@pytest.mark.parametrize(("severity", "shown"), [(1, False), (2, True), (3, True), (4, False)])
def test_what_nsys_itself_complained_of_is_shown(severity, shown, refused, write, export):
    export.call(LAUNCH, 1)
    text = "Installed CUDA driver version (13.0) is not supported by this build"
    export.row("DIAGNOSTIC_EVENT", severity=severity, text=text)
    assert (text in refused(write(export))) == shown


def test_diagnostics_end_with_one_full_stop(refused, write, export):
    export.call(LAUNCH, 1)
    export.row("DIAGNOSTIC_EVENT", severity=2, text="No CUDA events collected.")
    assert ".." not in refused(write(export))


def graph_level(version, replays=4, eager=2):
    """Decode steps that are a replay each, as --cuda-graph-trace=graph records them."""
    export = ExportBuilder(version)
    export.step(PREFILL, [("nvjet_a", 5)] * eager)
    for _ in range(replays):
        export.step(DECODE, replay=50)
    return export


@pytest.mark.parametrize("version", ["2020.4", "2022.4", "2023.4"])
def test_replays_that_left_no_rows_name_the_option_that_records_them(version, refused, write):
    path = write(graph_level(version))
    line = refused(path)
    assert f"{path}: 4 of 4 CUDA graph launches left no rows" in line
    assert "--cuda-graph-trace=node" in line
    assert "nsys 2024.2 or newer" in line


def test_replays_without_rows_are_refused_in_a_newer_export_too(refused, write):
    path = write(graph_level("2024.2"), without=[GRAPH_TRACE])
    assert "left no rows" in refused(path)


def test_replays_with_only_copies_inside_are_not_missing(write, export):
    export.step(PREFILL, [("nvjet_a", 5)])
    export.copy(300, 5, export.call(GRAPH_LAUNCH, 290))
    assert kernelscope.read_export(write(export)).kernels.height == 1


def test_replays_recorded_kernel_by_kernel_are_not_refused(write, run_export):
    assert kernelscope.read_export(write(run_export)).kernels.height == 14


def test_the_same_correlation_id_in_another_process_hides_no_missing_replay(refused, write):
    export = graph_level("2023.4")
    for correlation in range(101, 110):
        export.kernel("nvjet_b", 900, 1, correlation, pid=77)
    assert "left no rows" in refused(write(export))


# Every kind of refusal is of one family


@pytest.mark.parametrize(
    ("content", "kind"),
    [(b"", NotAnExport), (bytes(512), NotAnExport), (STREAM, NotAnExport)],
)
def test_the_library_raises_what_the_command_line_prints(content, kind, tmp_path):
    with pytest.raises(kind) as caught:
        kernelscope.read_export(make(tmp_path / "x.sqlite", content))
    assert isinstance(caught.value, ExportError)
    assert str(caught.value) == f"{caught.value.message} {caught.value.hint}"
    assert caught.value.hint


def test_summarize_refuses_a_path_as_read_export_does(write, export):
    export.call(LAUNCH, 1)
    with pytest.raises(NoKernels):
        kernelscope.summarize(write(export))


@pytest.mark.parametrize("suffix", ["json", "csv", "parquet", "sqlite"])
def test_no_output_file_is_written_for_bad_input(suffix, refused, tmp_path):
    output = tmp_path / f"out.{suffix}"
    refused(tmp_path / "no.sqlite", "-o", output, "--format", suffix)
    assert not output.exists()


def test_the_program_itself_ends_with_code_1_and_one_line(tmp_path):
    done = subprocess.run(
        [sys.executable, "-m", "kernelscope", "summarize", str(tmp_path / "no.sqlite")],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    assert done.stdout == ""
    assert done.stderr == (
        f"kernelscope: There is no file {tmp_path / 'no.sqlite'}. Check the path.\n"
    )


def test_a_kernel_table_with_only_impossible_rows_is_not_zero_time(run, write, export):
    export.kernel("nvjet_a", 0, 0)  # start = end = 0: CUPTI's way to say "no time collected"
    result = run("summarize", write(export))
    assert "1 kernels or graph replays with impossible times" in " ".join(result.stdout.split())
    assert "ms" not in result.stdout.split()
