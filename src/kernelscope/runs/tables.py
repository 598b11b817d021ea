"""The tables of a run, one CSV file each."""

from __future__ import annotations

from collections.abc import Iterator

import polars as pl

from kernelscope.runs.model import Captured
from kernelscope.summary import PhaseSummary, Summary

_DECIMALS = 6
GEMM = "gemm"


def phase_rows(captured: Captured, summary: Summary) -> pl.DataFrame:
    """One row per rank and phase of a capture; times in milliseconds per step."""
    rows = [_phase_row(captured, summary, phase) for phase in summary.phases]
    return _rounded(pl.DataFrame(rows, schema=_PHASES))


def detail_tables(captured: Captured, summary: Summary) -> Iterator[tuple[str, pl.DataFrame]]:
    """Name and table of a capture's kernels and layers per phase, and of its steps."""
    what = f"b{captured.batch}_{captured.mode}"
    for phase in dict.fromkeys(found.phase for found in summary.phases):
        only = pl.col("phase") == phase
        yield f"kernels_{phase}_{what}", _kernels(summary.table("kernel").filter(only))
        layers = summary.table("layer").filter(only).drop("batch")
        if layers.height:
            yield f"layers_{phase}_{what}", _rounded(layers)
    yield f"steps_{what}", _rounded(summary.steps())


def inflation(captured: Captured, phase: PhaseSummary) -> float | None:
    """How much longer a profiled decode step takes than an unprofiled one, as a fraction."""
    if phase.phase != "decode" or captured.step_ms is None or phase.wall_ms is None:
        return None
    return phase.wall_ms.median / captured.step_ms.median - 1


_PHASES = {
    "mode": pl.String,
    "batch": pl.Int64,
    "rank": pl.Int64,
    "phase": pl.String,
    "steps": pl.Int64,
    "kernels_per_step": pl.Float64,
    "gemm_count": pl.Float64,
    "gemm_share": pl.Float64,
    "wall_ms": pl.Float64,
    "kernel_ms": pl.Float64,
    "idle_ms": pl.Float64,
    "launch_calls": pl.Float64,
    "tokens_per_s": pl.Float64,
    "unprofiled_ms": pl.Float64,
    "unprofiled_p10_ms": pl.Float64,
    "unprofiled_p90_ms": pl.Float64,
    "inflation": pl.Float64,
}


def _phase_row(captured: Captured, summary: Summary, phase: PhaseSummary) -> dict[str, object]:
    gemms = summary.rows(phase, "family").filter(pl.col("family") == GEMM)
    unprofiled = {"decode": captured.step_ms, "prefill": captured.first_token_ms}.get(phase.phase)
    return {
        "mode": captured.mode,
        "batch": captured.batch,
        "rank": phase.rank,
        "phase": phase.phase,
        "steps": phase.steps,
        "kernels_per_step": phase.kernels_per_step.median if phase.kernels_per_step else None,
        "gemm_count": float(gemms["kernels_per_step"].sum()),
        "gemm_share": float(gemms["share"].sum()),
        "wall_ms": phase.wall_ms.median if phase.wall_ms else None,
        "kernel_ms": phase.kernel_ms,
        "idle_ms": phase.idle_ms,
        "launch_calls": phase.launch_calls_per_step,
        "tokens_per_s": phase.tokens_per_s,
        "unprofiled_ms": unprofiled.median if unprofiled else None,
        "unprofiled_p10_ms": unprofiled.p10 if unprofiled else None,
        "unprofiled_p90_ms": unprofiled.p90 if unprofiled else None,
        "inflation": inflation(captured, phase),
    }


def _kernels(kernels: pl.DataFrame) -> pl.DataFrame:
    """One row per kernel name, most time first."""
    return _rounded(
        kernels.select(
            "rank",
            "name",
            "category",
            rule="rule_id",
            decided_by="method",
            count_per_step="kernels_per_step",
            ms_per_step="kernel_ms",
            share="share",
            longest_ms="longest_ms",
        ).sort(
            ["rank", "ms_per_step", "name"], descending=[False, True, False], maintain_order=True
        )
    )


def _rounded(table: pl.DataFrame) -> pl.DataFrame:
    """To a nanosecond: what lies below is the order in which sums were made."""
    return table.with_columns(pl.col(pl.Float64).round(_DECIMALS))
