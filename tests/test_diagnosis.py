"""The doctor: every finding, on an export that has exactly that, and silence where all is well."""

import json
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

import kernelscope
from conftest import small_run
from export_builder import DECODE, GRAPH_LAUNCH, LAUNCH, PREFILL, ExportBuilder
from kernelscope.commands.doctor import FORMATS
from kernelscope.findings import TOPICS
from kernelscope.nsys.diagnostics import LOST_DATA
from kernelscope.rendering.diagnosis import DIAGNOSIS_FORMATS


@pytest.fixture
def diagnose(write):
    """Writes a builder's export and looks it over."""

    def look(export, *, unprofiled_ms=None, **options):
        return kernelscope.diagnose(write(export, **options), unprofiled_ms=unprofiled_ms)

    return look


def of_level(diagnosis, level):
    return [(found.topic, found.message) for found in diagnosis.findings if found.level == level]


def one(diagnosis, topic, level):
    """The only finding of that topic and level."""
    (found,) = [found for found in diagnosis.about(topic) if found.level == level]
    return found


def diagnostic(export, text, severity):
    export.row(
        "DIAGNOSTIC_EVENT", timestamp=1, timestampType=0, source=0, severity=severity, text=text
    )


# What is in order


def test_a_clean_run_is_in_order_in_every_topic(diagnose, run_export):
    found = diagnose(run_export)
    assert {one.level for one in found.findings} == {"ok"}
    assert found.problems == ()
    # The overhead is told only against a step that was timed without the profiler.
    assert {one.topic for one in found.findings} == set(TOPICS) - {"overhead"}


def test_findings_come_in_the_order_of_topics(diagnose, run_export):
    order = [TOPICS.index(found.topic) for found in diagnose(run_export).findings]
    assert order == sorted(order)


def test_it_says_what_the_file_is(diagnose, run_export):
    found = diagnose(run_export)
    # small_run: 2 prefill kernels and 3 decode steps of 4 kernels.
    assert "14 kernels" in one(found, "file", "ok").message
    assert "schema 3.11.1" in one(found, "exporter", "ok").message
    assert "NVIDIA H200" in one(found, "processes", "ok").message
    assert "3 complete decode steps, 1 complete prefill step" in one(found, "steps", "ok").message
    assert "(node)" in one(found, "graphs", "ok").message


def test_steps_left_out_are_told_with_their_reason(diagnose, run_export):
    run_export.step("execute_context_0(0)_generation_0(0)")
    message = one(diagnose(run_export), "steps", "ok").message
    assert "left out: 1 empty step (the label names no requests)" in message


# The file


def damaged(path):
    """A page in the middle of a table replaced by one of another kind."""
    with closing(sqlite3.connect(path)) as db:
        ((page,),) = db.execute(
            "SELECT pageno FROM dbstat WHERE name = 'StringIds' AND pagetype = 'leaf' LIMIT 1"
        )
    data = bytearray(path.read_bytes())
    # An interior page of an index where the leaf of a table belongs; see SQLite's file format.
    data[(page - 1) * 4096] = 2
    path.write_bytes(data)
    return path


def test_a_damaged_file_is_a_problem(write, run_export):
    found = kernelscope.diagnose(damaged(write(run_export)))
    assert found.problems
    assert any("damage" in problem.message for problem in found.problems)


def test_kernels_written_twice_are_a_problem(write, run_export):
    path = write(run_export)
    with closing(sqlite3.connect(path)) as db, db:
        table = "CUPTI_ACTIVITY_KIND_KERNEL"
        db.execute(f"INSERT INTO {table} SELECT * FROM {table}")
    problem = one(kernelscope.diagnose(path), "integrity", "problem")
    assert problem.message.startswith("14 of 28 kernels are there twice")
    assert "--append" in problem.action


def test_a_newer_schema_is_a_warning(diagnose):
    export = small_run()
    export.rows["META_DATA_EXPORT"][1]["value"] = "4.0.0"
    assert "4.0.0 is newer" in one(diagnose(export), "exporter", "warning").message


def test_what_cannot_be_read_is_a_finding(tmp_path):
    path = tmp_path / "notes.sqlite"
    path.write_text("not a database, but long enough to have a header" * 20)
    (problem,) = kernelscope.diagnose(path).findings
    assert (problem.topic, problem.level) == ("file", "problem")
    assert "not an SQLite file" in problem.message
    assert problem.action


def test_an_export_without_kernels_still_says_what_it_is(diagnose, export):
    export.call(LAUNCH, 10)
    diagnostic(export, "CUPTI dropped 7 records", 3)
    found = diagnose(export)
    assert "1 launch calls" in one(found, "file", "problem").message
    assert "schema 3.11.1" in one(found, "exporter", "ok").message
    assert "CUPTI dropped" in one(found, "diagnostics", "problem").message


# Graphs, processes, window


def test_replays_recorded_as_a_whole_are_a_problem(diagnose, export):
    export.graph_mode("Graph").step(PREFILL, [("nvjet_a", 5)])
    export.step(DECODE, [("nvjet_a", 5)], replay=50)
    problem = one(diagnose(export), "graphs", "problem")
    assert "1 CUDA graph replays were recorded as a whole" in problem.message
    assert "--cuda-graph-trace=node" in problem.action


def graph_steps(count):
    export = small_run()
    for _ in range(count):
        export.step(DECODE, [("nvjet_a", 1)], graph=[("rms_norm_kernel", 1)])
    return export


@pytest.mark.parametrize(("lost", "level"), [(1, "warning"), (2, "problem")])
def test_launches_without_kernels_are_told(lost, level, diagnose):
    # One launch in flight at the end of the window is usual, a larger part is not.
    export = graph_steps(4)
    for at in range(lost):
        export.call(GRAPH_LAUNCH, 805 + at)
    assert one(diagnose(export), "graphs", level).message.startswith(f"{lost} of {7 + lost} CUDA")


def test_a_process_that_launches_and_has_no_kernels_is_a_problem(diagnose, run_export):
    for at in range(5):
        run_export.call(LAUNCH, 200 + at, pid=777)
    problem = one(diagnose(run_export), "processes", "problem")
    assert "(pid 777) made 5 launch calls and has no kernels" in problem.message
    assert "--trace-fork-before-exec=true" in problem.action


def test_each_rank_is_told(diagnose):
    export = ExportBuilder("2025.3").gpu(0, "first").gpu(1, "second")
    for number, pid in enumerate((10, 20)):
        export.row("TARGET_INFO_CUDA_DEVICE", gpuId=number, cudaId=0, pid=pid)
        export.step(DECODE, [("nvjet_a", 10)], pid=pid)
    told = [message for topic, message in of_level(diagnose(export), "ok") if topic == "processes"]
    assert ["pid 10" in told[0], "first" in told[0], "second" in told[1]] == [True] * 3


def test_start_up_in_the_window_is_a_warning(diagnose, run_export):
    for name in ("cudaStreamBeginCapture_v10000", "cudaGraphInstantiateWithFlags_v11040"):
        run_export.call(name, 1)
    warning = one(diagnose(run_export), "window", "warning")
    assert warning.message == (
        "Start-up is in the window: 1 graph instantiations, 1 graph captures."
    )
    assert "--capture-range=cudaProfilerApi" in warning.action


def test_it_says_who_opened_the_window(diagnose, run_export):
    assert "is unknown" in one(diagnose(run_export), "window", "ok").message
    run_export.call("cudaProfilerStart_v4000", 1)
    opened = one(diagnose(run_export), "window", "ok").message
    assert "1 profiler start call, 0 stop calls" in opened


@pytest.mark.parametrize(("stray", "level"), [(1, "warning"), (3, "problem")])
def test_kernels_without_a_launching_call_are_told(stray, level, diagnose):
    # 1 in 39 is above one percent, 3 in 41 are above five.
    export = graph_steps(12)
    for at in range(stray):
        export.kernel("nvjet_a", 50 + at, 1)
    found = diagnose(export)
    assert "without a launching call" in one(found, "window", level).message
    assert "without a launching call" in one(found, "launches", "ok").message


def test_without_labels_steps_are_a_warning(diagnose, export):
    export.kernel("nvjet_a", 10, 5, export.call(LAUNCH, 1))
    steps = diagnose(export).about("steps")
    assert {found.level for found in steps} == {"warning"}
    assert any(found.message.startswith("No steps") for found in steps)


def test_no_complete_step_is_a_problem(diagnose, export):
    export.step(DECODE)
    export.kernel("nvjet_a", 10, 5, export.call(LAUNCH, 1))
    assert "No step is complete" in one(diagnose(export), "steps", "problem").message


# Times and names


@pytest.mark.parametrize(("steps", "level"), [(0, "problem"), (60, "warning")])
def test_impossible_times_are_told(steps, level, diagnose):
    export = graph_steps(steps).window(10_000)
    export.kernel("nvjet_a", 0, 0)
    assert one(diagnose(export), "times", level).message.startswith("1 kernels or graph replays")


def test_a_kernel_before_its_call_is_a_warning(diagnose, run_export):
    run_export.kernel("nvjet_a", 430, 1, run_export.call(LAUNCH, 432.5))
    warning = one(diagnose(run_export), "times", "warning")
    assert "1 of 15 kernels start before their launching call, by 2.5 µs" in warning.message


def test_negative_times_are_told(diagnose, run_export):
    run_export.kernel("nvjet_a", -20, 1, run_export.call(LAUNCH, -25))
    assert (
        "1 of 15 kernels start before time 0"
        in one(diagnose(run_export), "times", "warning").message
    )


def test_kernels_after_the_end_of_the_capture_are_told(diagnose, run_export):
    run_export.kernel("nvjet_a", 2_500, 1, run_export.call(LAUNCH, 450))
    message = one(diagnose(run_export), "times", "warning").message
    assert message == "1 of 15 kernels start after the end of the capture."


def test_names_that_lead_nowhere_are_a_problem(diagnose, run_export):
    found = diagnose(run_export, without=["StringIds"])
    messages = [problem.message for problem in found.problems if problem.topic == "names"]
    assert any("no StringIds table" in message for message in messages)
    assert any("lead nowhere (#" in message for message in messages)


def test_names_that_are_cut_off_are_a_warning(diagnose, export):
    cut = "void at::native::vectorized_elementwise_kernel<4>(int"
    export.step(DECODE, [("nvjet_a", 2), (cut, 1)])
    warning = one(diagnose(export), "names", "warning")
    assert warning.message.startswith("1 of 2 kernel names are cut off: vectorized_elementwise")


def test_unknown_kernels_are_a_warning_with_their_share(diagnose, export):
    export.step(DECODE, [("nvjet_a", 6), ("zzz_new_thing", 2)])
    assert "25.00%" in one(diagnose(export), "names", "warning").message


# What nsys itself said


@pytest.mark.parametrize("part", [part for part, _ in LOST_DATA])
def test_lost_data_is_a_problem_of_doctor_and_summary(part, write, run_export):
    diagnostic(run_export, f"Something: {part.upper()}!", 2)
    path = write(run_export)
    problem = one(kernelscope.diagnose(path), "diagnostics", "problem")
    assert problem.action
    assert problem.sentence in kernelscope.summarize(path).warnings


def test_what_nsys_says_of_sound_captures_is_no_warning(diagnose, run_export):
    diagnostic(run_export, "Not all CUDA events might have been collected.", 2)
    assert "Not all CUDA events" in one(diagnose(run_export), "diagnostics", "ok").evidence


def test_other_warnings_of_nsys_are_warnings(diagnose, run_export):
    for _ in range(3):
        diagnostic(run_export, "Installed CUDA driver version (13.0) is not supported.", 2)
    diagnostic(run_export, "Profiling has started.", 1)
    message = one(diagnose(run_export), "diagnostics", "warning").message
    assert message == (
        "nsys recorded: Installed CUDA driver version (13.0) is not supported (3 times)."
    )


# Overhead: small_run has a decode step every 100 µs, which is 0.1 ms


@pytest.mark.parametrize(
    ("unprofiled_ms", "level", "factor"),
    [(0.1, "ok", "1.00"), (0.08, "warning", "1.25"), (0.2, "warning", "0.50")],
)
def test_the_profilers_overhead_is_a_factor(unprofiled_ms, level, factor, diagnose, run_export):
    found = one(diagnose(run_export, unprofiled_ms=unprofiled_ms), "overhead", level)
    assert f"{factor} times" in found.message


def test_without_decode_steps_there_is_no_overhead(diagnose, export):
    export.step(PREFILL, [("nvjet_a", 5)])
    assert "no decode step" in one(diagnose(export, unprofiled_ms=1), "overhead", "warning").message


# What summarize prints is the same


def test_summarize_warns_of_every_problem_that_it_can_see(write, export):
    export.graph_mode("Graph").step(DECODE, [("zzz", 5)], replay=50)
    export.kernel("nvjet_a", 0, 0)
    export.call(LAUNCH, 200, pid=777)
    path = write(export)
    problems = [problem.sentence for problem in kernelscope.diagnose(path).problems]
    assert len(problems) == 3
    assert set(problems) <= set(kernelscope.summarize(path).warnings)


# The command


@pytest.mark.parametrize(("export", "code"), [("sound", 0), ("opaque", 1)])
def test_the_exit_code_says_whether_there_is_a_problem(export, code, run, write, run_export):
    if export == "opaque":
        run_export.step(DECODE, [("nvjet_a", 5)], replay=50)
    result = run("doctor", write(run_export))
    assert result.exit_code == code
    assert "Traceback" not in result.stderr


def test_formats_of_the_command_are_those_of_the_renderers():
    assert set(FORMATS) == set(DIAGNOSIS_FORMATS)


def test_json_has_every_finding(run, write, run_export):
    data = json.loads(run("doctor", write(run_export), "--format", "json").stdout)
    assert data["problems"] == 0
    assert {found["topic"] for found in data["findings"]} == set(TOPICS) - {"overhead"}
    assert set(data["findings"][0]) == {"topic", "level", "message", "action", "evidence"}


@pytest.mark.parametrize("format_", FORMATS)
def test_a_hostile_name_reaches_nobody(format_, run, write, run_export):
    run_export.step(DECODE, [("\x1b[2J<script>alert(1)</script>", 90)])
    shown = run("doctor", write(run_export), "--format", format_).stdout
    assert "\x1b" not in shown
    assert format_ != "markdown" or "<script>" not in shown


def test_the_report_is_written_and_not_over_another(run, write, run_export, tmp_path):
    out = tmp_path / "report.txt"
    path = write(run_export)
    assert run("doctor", path, "-o", out).exit_code == 0
    assert "0 problems, 0 warnings" in out.read_text()
    again = run("doctor", path, "-o", out)
    assert again.exit_code == 1
    assert "exists" in again.stderr


def test_a_file_that_is_not_there_is_one_problem(run, tmp_path):
    result = run("doctor", tmp_path / "none.sqlite")
    assert result.exit_code == 1
    assert "There is no file" in result.stdout


def test_doctor_leaves_the_file_and_its_folder_alone(run, write, run_export):
    path = write(run_export)
    before = {file: file.read_bytes() for file in path.parent.iterdir()}
    run("doctor", path)
    assert {file: file.read_bytes() for file in Path(path).parent.iterdir()} == before


def test_a_copy_under_an_odd_name_is_told_by_that_name(run, write, run_export, tmp_path):
    odd = tmp_path / "a b#c?d%20é.sqlite"
    shutil.copy(write(run_export), odd)
    assert run("doctor", odd).stdout.splitlines()[0].endswith("é.sqlite")
