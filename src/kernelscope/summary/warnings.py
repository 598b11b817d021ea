"""What a reader must know before quoting a number."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import polars as pl

from kernelscope.measure import Measured
from kernelscope.rules.tables import UNKNOWN
from kernelscope.step_table import COMPLETE
from kernelscope.steps import NO_STEPS, Steps
from kernelscope.summary.model import Left, PhaseSummary
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
) -> Iterator[str]:
    """One sentence per thing that limits what the numbers mean."""
    yield from info.warnings
    if steps.method == NO_STEPS:
        yield (
            f"No steps: {steps.evidence}. The whole trace is summarized as one unit. Capture with "
            "'-t cuda,nvtx' and --profiler-config.profiler cuda to get vLLM's step labels."
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
    yield from _uneven_steps(step_table)
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


def _uneven_steps(steps: pl.DataFrame) -> Iterator[str]:
    """Equal decode steps must have equal kernel counts."""
    complete = steps.filter((pl.col("status") == COMPLETE) & (pl.col("phase") == "decode"))
    shape = ["rank", "generation_requests", "generation_tokens"]
    usual = pl.col("kernels").mode().min().over(shape)
    odd = complete.filter(pl.col("kernels") != usual)
    if odd.height:
        yield (
            f"{odd.height} of {complete.height} decode steps differ in kernel count from the "
            "usual step of their batch size."
        )


def _pauses(steps: pl.DataFrame) -> Iterator[str]:
    pauses = steps.filter(pl.col("is_pause"))
    total_ms = float(pauses["gap_ns"].sum()) / 1e6
    if pauses.height:
        yield (
            f"{pauses.height} pauses between requests ({total_ms:,.1f} ms in all) are part of no "
            "step."
        )


def outside_warning(outside: Sequence[Left], measured: Measured) -> Iterator[str]:
    """Said when enough of the kernels are in no step to wonder why."""
    total = int(measured.by_step["kernels"].sum())
    count = sum(left.kernels for left in outside)
    if count > _MANY_OUTSIDE * total:
        reasons = "; ".join(f"{left.kernels:,} {left.reason}" for left in outside)
        yield f"{count:,} of {total:,} kernels are in no step: {reasons}."
