"""What holds of every trace, on random small ones."""

from collections import Counter
from dataclasses import dataclass

import numpy as np
import polars as pl
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import kernelscope
from export_builder import (
    DECODE,
    EMPTY,
    GRAPH_LAUNCH,
    LAUNCH,
    MIXED,
    PREFILL,
    TID,
    ExportBuilder,
)

LABELS = [PREFILL, DECODE, DECODE, MIXED, EMPTY, "execute_context_0(0)_generation_1(700)"]
NAMES = ["nvjet_a", "rms_norm_kernel", "zzz_unknown", "reshape_and_cache_flash_kernel"]
PIDS = [10, 20]


@dataclass(frozen=True)
class Kernel:
    name: str
    launched: int | None
    start: int
    duration: int
    pid: int
    tid: int
    stream: int


moments = st.integers(0, 400)
kernels = st.builds(
    Kernel,
    name=st.sampled_from(NAMES),
    launched=st.none() | moments,
    start=st.integers(1, 400),
    duration=st.integers(-1, 60),
    pid=st.sampled_from(PIDS),
    tid=st.sampled_from([TID, TID, TID, TID + 1]),
    stream=st.sampled_from([7, 8]),
)
labels = st.lists(
    st.tuples(st.sampled_from(LABELS), moments, st.sampled_from(PIDS)),
    max_size=8,
    unique_by=lambda label: label[1:],
)
traces = st.tuples(labels, st.lists(kernels, min_size=1, max_size=25))
quick = settings(
    max_examples=20,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)


def build(trace):
    labels, kernels = trace
    export = ExportBuilder("2024.2")
    for label, at, pid in labels:
        export.range(label, at, at + 5, pid=pid)
    for kernel in kernels:
        where = {"pid": kernel.pid, "stream": kernel.stream}
        launch = None
        if kernel.launched is not None:
            launch = export.call(LAUNCH, kernel.launched, pid=kernel.pid, tid=kernel.tid)
        export.kernel(kernel.name, kernel.start, kernel.duration, launch, **where)
    return export


def possible(trace):
    return [kernel for kernel in trace[1] if kernel.duration >= 0]


def step_by_hand(trace, kernel):
    """The label of the step that the definition puts a kernel in, or None."""
    if kernel.launched is None or kernel.tid != TID:
        return None
    mine = sorted((at, label) for label, at, pid in trace[0] if pid == kernel.pid)
    before = [step for step in mine if step[0] <= kernel.launched]
    return (kernel.pid, *before[-1]) if before else None


@pytest.fixture
def summary_of(tmp_path_factory):
    def summarize(trace, **options):
        path = tmp_path_factory.mktemp("trace") / "trace.sqlite"
        return kernelscope.summarize(build(trace).write(path, **options))

    return summarize


@quick
@given(traces)
def test_every_kernel_is_in_one_step_left_out_or_outside(summary_of, trace):
    summary = summary_of(trace)
    complete = summary.table("step").filter(pl.col("status") == "complete")
    counted = complete["kernels"].sum()
    counted += sum(left.kernels for left in (*summary.excluded, *summary.outside))
    assert counted == len(possible(trace)) == sum(rank.kernels for rank in summary.ranks)


@quick
@given(traces.filter(lambda trace: trace[0]))
def test_steps_hold_the_kernels_that_their_windows_launched(summary_of, trace):
    expected = Counter(step_by_hand(trace, kernel) for kernel in possible(trace))
    outside = expected.pop(None, 0)
    summary = summary_of(trace)
    steps = summary.table("step").filter(pl.col("kernels") > 0)
    found = Counter(
        {
            (kernelscope.trace.pid(row["process"]), row["start_ns"] // 1000, row["label"]): row[
                "kernels"
            ]
            for row in steps.to_dicts()
        }
    )
    assert found == expected
    assert sum(left.kernels for left in summary.outside) == outside


@quick
@given(traces)
def test_busy_time_of_a_step_is_its_union(summary_of, trace):
    summary = summary_of(trace)
    if not trace[0]:
        return
    for row in summary.table("step").filter(pl.col("kernels") > 0).to_dicts():
        key = (kernelscope.trace.pid(row["process"]), row["start_ns"] // 1000, row["label"])
        covered = {
            moment
            for kernel in possible(trace)
            if step_by_hand(trace, kernel) == key
            for moment in range(kernel.start, kernel.start + kernel.duration)
        }
        assert row["busy_ns"] == len(covered) * 1000


@quick
@given(traces)
def test_shares_and_times_add_up(summary_of, trace):
    summary = summary_of(trace)
    for phase in summary.phases:
        assert phase.busy_ms <= min(phase.kernel_ms, phase.span_ms) + 1e-9
        assert phase.busy_ms + phase.idle_ms == pytest.approx(phase.span_ms)
        assert phase.busy_ms + phase.overlap_ms == pytest.approx(phase.kernel_ms)
        for by in ("category", "family", "kernel"):
            rows = summary.table(by).filter(
                (pl.col("phase") == phase.phase) & (pl.col("rank") == phase.rank)
            )
            assert rows["kernel_ms"].sum() == pytest.approx(phase.kernel_ms)
            if phase.kernel_ms:
                assert rows["share"].sum() == pytest.approx(1)
            assert rows["share"].min() >= 0


@quick
@given(traces, st.integers(0, 5))
def test_the_order_of_rows_changes_nothing(summary_of, trace, seed):
    # Two labels at one moment on one thread have no order; the strategy makes none.
    assert figures(summary_of(trace, shuffle=seed)) == figures(summary_of(trace))


@quick
@given(traces, st.sampled_from([-500_000_000, 1, 1_700_000_000_000_000_000]))
def test_moving_every_moment_changes_nothing(summary_of, trace, shift_ns):
    assert figures(summary_of(trace, shift_ns=shift_ns)) == figures(summary_of(trace))


@quick
@given(st.lists(st.integers(1, 20), min_size=1, max_size=6), st.integers(1, 9))
def test_a_graph_launch_is_one_call_however_many_nodes(tmp_path_factory, walls, nodes):
    export = ExportBuilder("2024.2")
    at = 100
    for wall in walls:
        export.range(DECODE, at, at + 1)
        launch = export.call(GRAPH_LAUNCH, at + 1)
        for node in range(nodes):
            export.kernel("nvjet_a", at + 2, 1, launch, node=node)
        at += 100 * wall
    path = export.write(tmp_path_factory.mktemp("trace") / "trace.sqlite")
    phase = kernelscope.summarize(path).phase("decode")
    assert phase.launch_calls_per_step == phase.graph_launches_per_step == 1
    assert phase.kernels_per_step.median == nodes
    if len(walls) in (2, 3, 4):  # fewer walls than a pause is judged by
        times = [100 * wall / 1000 for wall in walls[:-1]]
        assert phase.wall_ms.median == pytest.approx(np.median(times))


def figures(summary):
    plain = summary.to_dict()
    return {key: rounded(plain[key]) for key in ("phases", "excluded_steps", "outside_steps")}


def rounded(value):
    """Sums of floats differ in their last digit with the order of rows."""
    if isinstance(value, float):
        return float(f"{value:.9g}") if abs(value) > 1e-12 else 0.0
    if isinstance(value, dict):
        return {key: rounded(inner) for key, inner in value.items()}
    return [rounded(inner) for inner in value] if isinstance(value, list) else value
