"""What a reader must know before quoting a number."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import polars as pl

from kernelscope.measure import Measured
from kernelscope.rules.tables import UNKNOWN
from kernelscope.steps import NO_STEPS, Steps
from kernelscope.summary.deviations import Deviation
from kernelscope.summary.figures import Left, PhaseSummary
from kernelscope.trace import TraceInfo

_MANY_OUTSIDE = 0.01
_TOP_UNKNOWN = 3


def find_warnings(
    info: TraceInfo,
    steps: Steps,
    measured: Measured,
    step_table: pl.DataFrame,
    phases: Sequence[PhaseSummary],
    kernels: pl.DataFrame,
    deviations: Sequence[Deviation],
) -> Iterator[str]:
    """One sentence per thing that limits what the numbers mean."""
    yield from info.warnings
    if steps.method == NO_STEPS:
        yield (
            f"No steps: {steps.evidence}. The whole trace is summarized as one unit. Capture with "
            "'-t cuda,nvtx' and --profiler-config.profiler cuda to get vLLM's step labels."
        )
    elif steps.is_inferred:
        yield (
            f"Steps are inferred ({steps.method}), not stated by the engine: what recurs is taken "
            "for decode. To be sure, capture '-t cuda,nvtx' with --profiler-config.profiler cuda."
        )
    elif not phases:
        yield f"No step is complete, so there are no averages ({steps.evidence})."
    yield from _opaque_replays(phases, measured)
    yield from _unknown_kernels(phases, kernels)
    if measured.impossible:
        yield (
            f"{measured.impossible:,} kernels or graph replays with impossible times (end before "
            "start, or both zero) are left out of every number."
        )
    if measured.ranks.height > 1:
        yield (
            f"{measured.ranks.height} ranks: each process and GPU has its own rows; times of "
            "different ranks are never added."
        )
    yield from _launch_bound(phases)
    yield from _lost_replays(steps, measured)
    yield from _deviations(deviations)
    yield from _pauses(step_table)


def _opaque_replays(phases: Sequence[PhaseSummary], measured: Measured) -> Iterator[str]:
    replays = int(measured.by_step["replays"].sum())
    if not replays:
        return
    shares = ", ".join(f"{p.opaque_share:.1%} of {p.phase}" for p in phases if p.opaque_share)
    yield (
        f"{replays:,} CUDA graph replays were recorded as a whole: their time is known "
        f"(cuda_graph{': ' + shares if shares else ''}), what ran inside is not, so every other "
        "count and share is a lower bound. Capture again with --cuda-graph-trace=node."
    )


def _unknown_kernels(phases: Sequence[PhaseSummary], kernels: pl.DataFrame) -> Iterator[str]:
    unknown = kernels.filter(pl.col("category") == UNKNOWN)
    for phase in phases:
        mine = unknown.filter((pl.col("phase") == phase.phase) & (pl.col("rank") == phase.rank))
        if mine.is_empty():
            continue
        top = ", ".join(mine["short_name"].head(_TOP_UNKNOWN))
        yield f"unknown kernels are {mine['share'].sum():.2%} of {phase.phase} kernel time: {top}."


def _deviations(found: Sequence[Deviation]) -> Iterator[str]:
    for one in found:
        what = f": {', '.join(one.differences)}" if one.differences else ""
        yield (
            f"{one.steps:,} of {one.of:,} {one.phase} steps of one shape differ in kernel count "
            f"from the usual one (step {one.step}: {one.kernels:,} instead of "
            f"{one.usual_kernels:,}{what})."
        )


def _launch_bound(phases: Sequence[PhaseSummary]) -> Iterator[str]:
    """The CPU cannot launch fast enough: most of the step passes without any kernel."""
    for phase in phases:
        if phase.idle_for_cpu_ms + phase.idle_between_launches_ms > phase.span_ms / 2:
            yield (
                f"{phase.phase} is launch-bound: of {phase.span_ms:.1f} ms per step the GPU is "
                f"idle for {phase.idle_ms:.1f} ms, {phase.idle_for_cpu_ms:.1f} ms of it waiting "
                f"for the CPU; kernels take {phase.kernel_ms:.1f} ms."
            )


def _lost_replays(steps: Steps, measured: Measured) -> Iterator[str]:
    made = int(steps.launches["is_graph"].sum())
    lost = made - int(measured.by_step["graph_launches"].sum())
    if lost > 0:
        yield (
            f"{lost:,} of {made:,} CUDA graph launches left no work on the GPU in this capture; "
            "what they ran is missing."
        )


def plural(number: int, noun: str) -> str:
    """``1 step``, ``2 steps``."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def _pauses(steps: pl.DataFrame) -> Iterator[str]:
    pauses = steps.filter(pl.col("is_pause"))
    total_ms = float(pauses["gap_ns"].sum()) / 1e6
    if pauses.height:
        yield (
            f"{plural(pauses.height, 'pause')} between requests ({total_ms:,.1f} ms in all): part "
            "of no step."
        )


def outside_warning(outside: Sequence[Left], measured: Measured) -> Iterator[str]:
    """Said when enough of the kernels are in no step to wonder why."""
    total = int(measured.by_step["kernels"].sum())
    count = sum(left.kernels for left in outside)
    if count > _MANY_OUTSIDE * total:
        reasons = "; ".join(f"{left.kernels:,} {left.reason}" for left in outside)
        yield f"{count:,} of {total:,} kernels are in no step: {reasons}."
