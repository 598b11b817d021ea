"""The timeline: valid, complete, exact, and safe for any name."""

import gzip
import json
from collections import Counter
from pathlib import Path

import polars as pl
import pytest

import kernelscope
from conftest import small_run
from export_builder import DECODE, LAUNCH, ExportBuilder
from exports import NAMES, exported
from kernelscope.errors import OutputError
from kernelscope.rules import load_rules
from kernelscope.timeline.events import microseconds
from kernelscope.timeline.lanes import side_by_side
from kernelscope.timeline.work import colours

# Its graphs were recorded as a whole, and nsys 2023.4 does not export those.
WITHOUT_KERNELS = "2023.4/llama-8b_graphlevel"
FIXTURES = Path(__file__).parent.parent / "fixtures" / "exports"
FIXTURE = FIXTURES / "2023.4" / "qwen35-27b_b1.sqlite"
# The names that chrome://tracing reserves (trace viewer, base/color_scheme.html).
RESERVED = {
    "thread_state_uninterruptible",
    "thread_state_iowait",
    "thread_state_running",
    "thread_state_runnable",
    "thread_state_unknown",
    "background_memory_dump",
    "light_memory_dump",
    "detailed_memory_dump",
    "vsync_highlight_color",
    "generic_work",
    "good",
    "bad",
    "terrible",
    "black",
    "grey",
    "white",
    "yellow",
    "olive",
    "rail_response",
    "rail_animation",
    "rail_idle",
    "rail_load",
    "startup",
    "heap_dump_stack_frame",
    "heap_dump_object_type",
    "heap_dump_child_node_arrow",
    "cq_build_running",
    "cq_build_passed",
    "cq_build_failed",
    "cq_build_abandoned",
    "cq_build_attempt_runnig",
    "cq_build_attempt_passed",
    "cq_build_attempt_failed",
}


@pytest.fixture
def timeline(write, tmp_path):
    """Writes a builder's export as a timeline and reads that back."""

    def make(export, **options):
        path = tmp_path / "timeline.json"
        kernelscope.write_timeline(write(export, **options), path, overwrite=True)
        return json.loads(path.read_text("utf-8"))

    return make


def events(document, kind="X", category=None):
    found = [event for event in document["traceEvents"] if event["ph"] == kind]
    return [event for event in found if category is None or event["cat"] == category]


def lane_names(document):
    names = {
        (event["pid"], event["tid"]): event["args"]["name"]
        for event in events(document, "M")
        if event["name"] == "thread_name"
    }
    assert len({tid for _, tid in names}) == len(names)
    return names


def on(document, lane):
    """The events of the lane of that name, in order of time."""
    names = lane_names(document)
    found = [each for each in events(document) if names[each["pid"], each["tid"]] == lane]
    return sorted(found, key=lambda event: event["ts"])


def test_a_small_run_is_all_there_at_the_right_time(timeline, run_export):
    document = timeline(run_export)
    kernels = on(document, "stream 7")
    # small_run: 2 kernels of prefill, and 3 steps of 1 + 2 + 1.
    assert len(kernels) == 14
    assert [event["name"] for event in kernels[:2]] == ["gemm", "norm"]
    assert [event["dur"] for event in kernels[:2]] == [30, 10]
    assert [event["args"]["step"] for event in kernels] == [0] * 2 + [1] * 4 + [2] * 4 + [3] * 4
    assert kernels[0]["args"]["kernel"] == "nvjet_a"
    steps = on(document, "steps")
    assert [event["name"] for event in steps] == ["prefill step"] + ["decode step"] * 3
    assert steps[1]["ts"] == kernels[2]["ts"]
    assert steps[1]["ts"] + steps[1]["dur"] == pytest.approx(kernels[5]["ts"] + kernels[5]["dur"])
    assert [(e["name"], e["args"]["steps"]) for e in on(document, "phases")] == [
        ("prefill", 1),
        ("decode", 3),
    ]


@pytest.mark.parametrize("name", [name for name in NAMES if name != WITHOUT_KERNELS])
def test_counts_and_times_are_those_of_the_trace(name, tmp_path):
    path = exported(name)
    target = tmp_path / "t.json.gz"
    written = kernelscope.write_timeline(path, target)
    document = json.loads(gzip.decompress(target.read_bytes()))
    assert len(events(document)) == written.events
    kernels = [e for e in events(document) if "kernel" in e["args"]]
    found = kernelscope.classify(kernelscope.read_export(path))
    assert Counter(e["name"] for e in kernels) == dict(found["category"].value_counts().iter_rows())
    origin = document["otherData"]["origin_ns"]
    told = sorted((round(e["ts"] * 1000) + origin, round(e["dur"] * 1000)) for e in kernels)
    spans = found.select("start_ns", pl.col("end_ns") - pl.col("start_ns"))
    assert told == sorted(spans.iter_rows())
    trace = kernelscope.read_export(path)
    assert len(events(document, "X", "memory")) == trace.copies.height + trace.sets.height


def test_arrows_lead_from_the_call_to_its_first_kernel(timeline, run_export):
    document = timeline(run_export)
    starts = {event["id"]: event for event in events(document, "s")}
    ends = {event["id"]: event for event in events(document, "f")}
    assert starts.keys() == ends.keys()
    # By hand: two launches of the prefill, and of each decode step one, a graph and one late.
    assert len(starts) == 11
    calls = {(e["pid"], e["tid"], e["ts"]): e for e in events(document, "X", "api call")}
    kernels = {(e["pid"], e["tid"], e["ts"]): e for e in on(document, "stream 7")}
    for number, end in ends.items():
        start = starts[number]
        call = calls[start["pid"], start["tid"], start["ts"]]
        kernel = kernels[end["pid"], end["tid"], end["ts"]]
        assert end["bp"] == "e"
        assert call["args"]["step"] == kernel["args"]["step"]
        assert call["ts"] <= kernel["ts"]
    graph_steps = [e["args"]["step"] for e in calls.values() if "GraphLaunch" in e["name"]]
    assert sorted(graph_steps) == [1, 2, 3]


def test_layers_lie_above_their_kernels(tmp_path):
    target = tmp_path / "t.json"
    kernelscope.write_timeline(FIXTURE, target)
    document = json.loads(target.read_text("utf-8"))
    summary = kernelscope.summarize(FIXTURE, layers=True)
    decode = [e for e in on(document, "layers") if e["args"]["step"] == 1]
    # Qwen3.5-27B has 64 layers (num_hidden_layers), and a part before and one behind them.
    assert [e["args"]["layer"] for e in decode] == [None, *range(64), None]
    kinds = summary.table("layer").filter(pl.col("phase") == "decode")["layer_kind"]
    assert [e["name"] for e in decode] == kinds.to_list()[:66]


def test_hostile_names_stay_names(timeline):
    name = 'x"},{"ph":"X"\\\n\t\x1b[31m</script>{}é\u2028'
    export = ExportBuilder("2024.2").gpu(0, name).window(1_000)
    for _ in range(3):
        export.step(DECODE, [(name, 5), ("nvjet_a", 1)])
    document = timeline(export)
    assert sum(e["args"].get("name") == name for e in events(document)) == 3
    groups = [e for e in events(document, "M") if e["name"] == "process_name"]
    assert name in groups[0]["args"]["name"]


def test_work_beside_other_work_of_its_stream_has_its_own_lane(timeline, run_export):
    run_export.kernel("nvjet_b", 1_500, 50, run_export.call(LAUNCH, 1_400))
    run_export.kernel("nvjet_b", 1_520, 60, run_export.call(LAUNCH, 1_402))
    document = timeline(run_export)
    assert [event["dur"] for event in on(document, "stream 7, beside it 1")] == [60]


def test_no_two_events_of_a_lane_cross():
    spans = pl.DataFrame(
        {"start_ns": [0, 5, 6, 10, 12, 30], "end_ns": [10, 8, 40, 12, 13, 31], "key": 1}
    )
    placed = side_by_side(spans, "key")
    assert placed.height == spans.height
    for (_,), lane in placed.group_by(["beside"]):
        ordered = lane.sort("start_ns")
        assert (ordered["start_ns"].to_numpy()[1:] >= ordered["end_ns"].to_numpy()[:-1]).all()


def test_microseconds_are_exact():
    times = pl.DataFrame({"t": [0, 7, 1_000, 12_345, 9_007_199_254_740_993]})
    told = times.select(microseconds(pl.col("t"))).to_series().to_list()
    assert told == ["0.000", "0.007", "1.000", "12.345", "9007199254740.993"]


def test_the_same_trace_gives_the_same_bytes(write, tmp_path):
    trace = write(small_run())
    for name in ("a.json.gz", "b.json.gz"):
        kernelscope.write_timeline(trace, tmp_path / name)
    assert (tmp_path / "a.json.gz").read_bytes() == (tmp_path / "b.json.gz").read_bytes()


def test_colours_are_reserved_names_of_known_categories():
    assert set(colours()) <= {category.name for category in load_rules().categories}
    assert set(colours().values()) <= RESERVED


def test_export_on_the_command_line(run, write, run_export, tmp_path):
    trace, target = write(run_export), tmp_path / "t.json"
    done = run("export", trace, "--format", "perfetto", "-o", target)
    assert done.exit_code == 0
    assert "11 arrows" in done.stderr
    again = run("export", trace, "-o", target)
    assert again.exit_code == 1
    assert "exists" in again.stderr
    assert run("export", trace, "-o", target, "--force").exit_code == 0
    with pytest.raises(OutputError, match="trace itself"):
        kernelscope.write_timeline(trace, trace, overwrite=True)
