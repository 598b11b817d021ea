"""What a reader must know before quoting a number of a summary."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import polars as pl

from kernelscope.findings import Finding, Level, plural
from kernelscope.measure import Measured
from kernelscope.rules.tables import UNKNOWN
from kernelscope.steps import NO_STEPS, Steps
from kernelscope.steps.windows import NO_LAUNCH_CALL, OUTSIDE
from kernelscope.summary.deviations import Deviation
from kernelscope.summary.figures import Left, PhaseSummary
from kernelscope.trace import TraceInfo, pid

_MANY_OUTSIDE = 0.01
_MANY_WITHOUT_CALL = 0.05
_MANY_LOST = 0.05
_MANY_IMPOSSIBLE = 0.01
_TOP_UNKNOWN = 3
_STEP_LABELS = "capture '-t cuda,nvtx' with --profiler-config.profiler cuda."


@dataclass(frozen=True, eq=False)
class Result:
    """What is looked at: the parts that a summary is made of."""

    info: TraceInfo
    steps: Steps
    measured: Measured
    step_table: pl.DataFrame
    phases: Sequence[PhaseSummary]
    kernels: pl.DataFrame
    deviations: Sequence[Deviation]
    outside: Sequence[Left]

    @property
    def kernel_count(self) -> int:
        """Kernels of the whole trace, in steps and outside."""
        return int(self.measured.by_step["kernels"].sum())


def find_findings(result: Result) -> Iterator[Finding]:
    """One finding per thing that limits what the numbers mean."""
    yield from result.info.findings
    for look in (
        _steps,
        _opaque_replays,
        _unknown_kernels,
        _impossible_times,
        _ranks,
        _idle_ranks,
        _launch_bound,
        _lost_replays,
        _deviations,
        _pauses,
        _outside,
    ):
        yield from look(result)


def _steps(result: Result) -> Iterator[Finding]:
    steps = result.steps
    if steps.method == NO_STEPS:
        message = f"No steps: {steps.evidence}. The whole trace is summarized as one unit."
        action = "Capture with '-t cuda,nvtx' and --profiler-config.profiler cuda to get vLLM's"
        yield Finding("steps", "warning", message, f"{action} step labels.")
    elif not result.phases:
        message = f"No step is complete, so there are no averages ({steps.evidence})."
        action = "Capture more steps, or summarize the whole trace with --steps-by none."
        yield Finding("steps", "problem", message, action)
    if steps.is_inferred:
        message = (
            f"Steps are inferred ({steps.method}), not stated by the engine: what recurs is taken "
            "for decode."
        )
        yield Finding("steps", "warning", message, f"To be sure, {_STEP_LABELS}")


def _opaque_replays(result: Result) -> Iterator[Finding]:
    replays = int(result.measured.by_step["replays"].sum())
    if not replays:
        return
    shares = ", ".join(
        f"{phase.opaque_share:.1%} of {phase.phase}"
        for phase in result.phases
        if phase.opaque_share
    )
    message = (
        f"{replays:,} CUDA graph replays were recorded as a whole: their time is known "
        f"(cuda_graph{': ' + shares if shares else ''}), what ran inside is not, so every other "
        "count and share is a lower bound."
    )
    yield Finding("graphs", "problem", message, "Capture again with --cuda-graph-trace=node.")


def _unknown_kernels(result: Result) -> Iterator[Finding]:
    unknown = result.kernels.filter(pl.col("category") == UNKNOWN)
    for phase in result.phases:
        mine = unknown.filter((pl.col("phase") == phase.phase) & (pl.col("rank") == phase.rank))
        if mine.is_empty():
            continue
        top = ", ".join(mine["short_name"].head(_TOP_UNKNOWN))
        message = f"unknown kernels are {mine['share'].sum():.2%} of {phase.phase} kernel time"
        yield Finding("names", "warning", f"{message}: {top}.")


def _impossible_times(result: Result) -> Iterator[Finding]:
    impossible = result.measured.impossible
    if impossible:
        total = impossible + result.kernel_count
        level: Level = "problem" if impossible > _MANY_IMPOSSIBLE * total else "warning"
        message = (
            f"{impossible:,} kernels or graph replays with impossible times (end before "
            "start, both zero, or beyond every clock) are left out of every number."
        )
        yield Finding("times", level, message)


def _ranks(result: Result) -> Iterator[Finding]:
    ranks = result.measured.ranks.height
    if ranks > 1:
        message = (
            f"{ranks} ranks: each process and GPU has its own rows; times of "
            "different ranks are never added."
        )
        yield Finding("processes", "warning", message)


def _idle_ranks(result: Result) -> Iterator[Finding]:
    """A process that launches and leaves nothing on the GPU is a rank that was not recorded."""
    launching = result.steps.launches.filter("is_launch").group_by("process").len("launches")
    lost = launching.join(result.measured.ranks, on="process", how="anti").sort("process")
    names = dict(result.info.process_names)
    for process, launches in lost.rows():
        name = names.get(process, "process")
        message = f"{name} (pid {pid(process)}) made {launches:,} launch calls and has no kernels."
        action = (
            "Its work is missing: capture with --trace-fork-before-exec=true and let every process "
            "exit by itself."
        )
        yield Finding("processes", "problem", message, action)


def _launch_bound(result: Result) -> Iterator[Finding]:
    """The CPU cannot launch fast enough: most of the step passes without any kernel."""
    for phase in result.phases:
        if phase.idle_for_cpu_ms + phase.idle_between_launches_ms > phase.span_ms / 2:
            message = (
                f"{phase.phase} is launch-bound: of {phase.span_ms:.1f} ms per step the GPU is "
                f"idle for {phase.idle_ms:.1f} ms, {phase.idle_for_cpu_ms:.1f} ms of it waiting "
                f"for the CPU; kernels take {phase.kernel_ms:.1f} ms."
            )
            yield Finding("launches", "warning", message)


def _lost_replays(result: Result) -> Iterator[Finding]:
    made = int(result.steps.launches["is_graph"].sum())
    lost = made - int(result.measured.by_step["graph_launches"].sum())
    if lost > 0:
        # The end of a capture cuts off what was launched last: a few are nothing to worry about.
        few = max(_MANY_LOST * made, result.measured.ranks.height)
        message = (
            f"{lost:,} of {made:,} CUDA graph launches left no work on the GPU in this capture; "
            "what they ran is missing."
        )
        yield Finding("graphs", "problem" if lost > few else "warning", message)


def _deviations(result: Result) -> Iterator[Finding]:
    for one in result.deviations:
        what = f": {', '.join(one.differences)}" if one.differences else ""
        message = (
            f"{one.steps:,} of {one.of:,} {one.phase} steps of one shape differ in kernel count "
            f"from the usual one (step {one.step}: {one.kernels:,} instead of "
            f"{one.usual_kernels:,}{what})."
        )
        yield Finding("steps", "warning", message)


def _pauses(result: Result) -> Iterator[Finding]:
    pauses = result.step_table.filter(pl.col("is_pause"))
    total_ms = float(pauses["gap_ns"].sum()) / 1e6
    if pauses.height:
        message = (
            f"{plural(pauses.height, 'pause')} between requests ({total_ms:,.1f} ms in all): part "
            "of no step."
        )
        yield Finding("steps", "warning", message)


def _outside(result: Result) -> Iterator[Finding]:
    """Said when enough of the kernels are in no step to wonder why."""
    total = result.kernel_count
    count = sum(left.kernels for left in result.outside)
    if count <= _MANY_OUTSIDE * total:
        return
    reasons = "; ".join(f"{left.kernels:,} {left.reason}" for left in result.outside)
    nameless = sum(
        left.kernels for left in result.outside if left.reason == OUTSIDE[NO_LAUNCH_CALL]
    )
    level: Level = "problem" if nameless > _MANY_WITHOUT_CALL * total else "warning"
    message = f"{count:,} of {total:,} kernels are in no step: {reasons}."
    yield Finding("window", level, message)
