"""The figures of each phase, from the step table."""

from __future__ import annotations

import numpy as np
import polars as pl

from kernelscope.idle import BETWEEN_LAUNCHES, FOR_CPU, INSIDE_REPLAY
from kernelscope.rules.tables import CUDA_GRAPH
from kernelscope.step_table import COMPLETE, INCOMPLETE, REASONS
from kernelscope.steps.labels import DECODE, MIXED
from kernelscope.steps.windows import OUTSIDE
from kernelscope.summary.figures import (
    Counts,
    LargestKernel,
    Left,
    MemoryOperations,
    PhaseSummary,
    Spread,
)
from kernelscope.summary.tables import PHASES, in_phase

_NS_PER_MS = 1e6
_NS_PER_S = 1e9


def summarize_phases(
    steps: pl.DataFrame, kernels: pl.DataFrame, memory: pl.DataFrame
) -> list[PhaseSummary]:
    """One entry per rank and phase with complete steps.

    Args:
        steps: the step table.
        kernels: the kernel table of the summary.
        memory: :attr:`kernelscope.measure.Measured.memory`.
    """
    complete = steps.filter(pl.col("status") == COMPLETE)
    keys = complete.select("rank", "phase", "batch").unique().rows()
    return [
        _summarize_phase(
            key,
            in_phase(steps, *key),
            in_phase(kernels, *key),
            memory.filter(pl.col("rank") == key[0]),
        )
        for key in sorted(keys, key=lambda key: (key[0], PHASES.index(key[1]), key[2] or 0))
    ]


def _summarize_phase(
    key: tuple[int, str, int | None],
    steps: pl.DataFrame,
    kernels: pl.DataFrame,
    memory: pl.DataFrame,
) -> PhaseSummary:
    rank, phase, batch = key
    complete = steps.filter(pl.col("status") == COMPLETE)
    incomplete = steps.filter(pl.col("status") == INCOMPLETE).height
    wall = complete["wall_ns"].drop_nulls()
    span_ms, kernel_ms, busy_ms = (
        _mean_ms(complete[column]) for column in ("span_ns", "kernel_ns", "busy_ns")
    )
    return PhaseSummary(
        phase=phase,
        rank=rank,
        batch=batch,
        steps=complete.height,
        incomplete_steps=incomplete,
        excluded_steps=steps.height - complete.height - incomplete,
        requests_per_step=_requests(complete),
        kernels_per_step=_counts(complete["kernels"]),
        wall_ms=None if wall.is_empty() else Spread.of((wall / _NS_PER_MS).to_numpy()),
        span_ms=span_ms,
        kernel_ms=kernel_ms,
        busy_ms=busy_ms,
        idle_ms=_mean_ms(complete["span_ns"] - complete["busy_ns"]),
        idle_inside_replay_ms=_mean_ms(complete[INSIDE_REPLAY]),
        idle_for_cpu_ms=_mean_ms(complete[FOR_CPU]),
        idle_between_launches_ms=_mean_ms(complete[BETWEEN_LAUNCHES]),
        overlap_ms=_mean_ms(complete["kernel_ns"] - complete["busy_ns"]),
        gap_ms=_median(complete.filter(~pl.col("is_pause"))["gap_ns"] / _NS_PER_MS),
        launch_calls_per_step=_median(complete["launch_calls"]) or 0.0,
        graph_launches_per_step=_median(complete["graph_launches"]) or 0.0,
        tokens_per_s=_tokens_per_s(complete, phase),
        prompt_tokens_per_s=_prompt_tokens_per_s(complete),
        opaque_share=float(kernels.filter(pl.col("category") == CUDA_GRAPH)["share"].sum()),
        largest_kernel=_largest(kernels),
        memory=_memory(complete, memory),
    )


def _requests(steps: pl.DataFrame) -> Counts | None:
    requests = (steps["context_requests"] + steps["generation_requests"]).drop_nulls()
    return _counts(requests) if requests.len() else None


def _tokens_per_s(steps: pl.DataFrame, phase: str) -> float | None:
    """Generated tokens per second, or null where they are not known.

    Prefill generates at its end only; and where a request carries several tokens, how many of
    them speculative decoding keeps is not in a trace.
    """
    if phase not in (DECODE, MIXED):
        return None
    if (steps["generation_tokens"] != steps["generation_requests"]).any():
        return None
    return _median(steps["generation_tokens"] / steps["wall_ns"] * _NS_PER_S)


def _prompt_tokens_per_s(steps: pl.DataFrame) -> float | None:
    if not steps["context_tokens"].sum():
        return None
    return _median(steps["context_tokens"] / steps["wall_ns"] * _NS_PER_S)


def _largest(kernels: pl.DataFrame) -> LargestKernel | None:
    inside = kernels.filter(pl.col("category") != CUDA_GRAPH)
    if inside.is_empty():
        return None
    row = inside.sort("longest_ms", "name", descending=[True, False]).row(0, named=True)
    kernel_ms = float(kernels["kernel_ms"].sum())
    one_ms = row["kernel_ms"] / row["kernels_per_step"]
    return LargestKernel(
        name=row["name"],
        short_name=row["short_name"],
        category=row["category"],
        duration_ms=row["longest_ms"],
        share=one_ms / kernel_ms if kernel_ms else 0.0,
    )


def _memory(steps: pl.DataFrame, memory: pl.DataFrame) -> MemoryOperations:
    mine = memory.filter(pl.col("step").is_in(steps["step"].implode()))
    columns = ("operations", "memory_ns", "bytes")
    copies, sets = (
        [_per_step(mine.filter(pl.col("kind") == kind)[column], steps) for column in columns]
        for kind in ("copy", "set")
    )
    return MemoryOperations(
        copies_per_step=copies[0],
        copy_ms=copies[1] / _NS_PER_MS,
        copied_bytes=copies[2],
        sets_per_step=sets[0],
        set_ms=sets[1] / _NS_PER_MS,
    )


def _per_step(values: pl.Series, steps: pl.DataFrame) -> float:
    return float(values.sum()) / steps.height


def excluded_steps(steps: pl.DataFrame) -> list[Left]:
    """Steps in no average, by phase and reason."""
    groups = (
        steps.filter(pl.col("status") != COMPLETE)
        .group_by("phase", "status")
        .agg(pl.len().alias("steps"), pl.col("kernels", "kernel_ns").sum())
        .sort("phase", "status")
    )
    return [
        Left(
            REASONS[row["status"]],
            row["phase"],
            row["steps"],
            row["kernels"],
            row["kernel_ns"] / _NS_PER_MS,
        )
        for row in groups.to_dicts()
    ]


def outside_steps(by_step: pl.DataFrame) -> list[Left]:
    """Kernels in no step, by reason."""
    groups = (
        by_step.filter(pl.col("step") < 0)
        .group_by("step")
        .agg(pl.col("kernels", "kernel_ns").sum())
        .sort("step", descending=True)
    )
    return [
        Left(OUTSIDE[row["step"]], None, 0, row["kernels"], row["kernel_ns"] / _NS_PER_MS)
        for row in groups.to_dicts()
    ]


def _mean_ms(values: pl.Series) -> float:
    return float(values.to_numpy().mean()) / _NS_PER_MS if values.len() else 0.0


def _median(values: pl.Series) -> float | None:
    present = values.drop_nulls().to_numpy()
    return float(np.median(present)) if present.size else None


def _counts(values: pl.Series) -> Counts:
    counts = values.to_numpy()
    return Counts(float(np.median(counts)), int(counts.min()), int(counts.max()))
