"""One row per step, with the time of each category; and how that time moves along the run."""

from __future__ import annotations

import numpy as np
import polars as pl

from kernelscope.step_table import COMPLETE
from kernelscope.summary.tables import PHASE_KEYS

CONTEXT = "token of context"
STEP = "step"

_NS_PER_MS = 1e6
_FEWEST_STEPS = 3
_COLUMNS = (
    "step",
    "rank",
    "phase",
    "status",
    "label",
    "context_requests",
    "context_tokens",
    "generation_requests",
    "generation_tokens",
    "generation_kv_tokens",
    "start_ms",
    "wall_ms",
    "span_ms",
    "kernel_ms",
    "busy_ms",
    "idle_ms",
    "idle_inside_replay_ms",
    "idle_for_cpu_ms",
    "idle_between_launches_ms",
    "kernels",
    "graph_launches",
    "launch_calls",
)


def time_per_category(by_name: pl.DataFrame, names: pl.DataFrame) -> pl.DataFrame:
    """One row per rank, step and category: ``kernels``, ``kernel_ns`` (int64)."""
    categories = names.select(pl.int_range(pl.len(), dtype=pl.Int32).alias("name"), "category")
    return (
        by_name.filter(pl.col("step") >= 0)
        .join(categories, on="name")
        .group_by("rank", "step", "category")
        .agg(pl.col("kernels", "kernel_ns").sum())
        .sort("rank", "step", "category")
    )


def step_rows(steps: pl.DataFrame, per_category: pl.DataFrame) -> pl.DataFrame:
    """The table of steps: times in ms, and a column ``<category>_ms`` per category.

    ``start_ms`` is the first kernel's start, counted from the first kernel of the first step.
    """
    first_ns = steps["first_ns"].min()
    per_step = per_category.with_columns(
        pl.format("{}_ms", pl.col("category")).alias("column"), pl.col("kernel_ns") / _NS_PER_MS
    )
    wide = per_step.pivot("column", index=["rank", "step"], values="kernel_ns", sort_columns=True)
    in_ms = steps.with_columns(
        (pl.col("^.*_ns$") / _NS_PER_MS).name.replace("_ns$", "_ms"),
    ).with_columns(
        start_ms=(pl.col("first_ns") - first_ns) / _NS_PER_MS,
        idle_ms=(pl.col("span_ns") - pl.col("busy_ns")) / _NS_PER_MS,
    )
    kept = [column for column in _COLUMNS if column in in_ms.columns]
    return (
        in_ms.select(kept)
        .join(wide, on=["rank", "step"], how="left", maintain_order="left")
        .with_columns(pl.col(wide.columns[2:]).fill_null(0.0))
    )


def find_trends(steps: pl.DataFrame, per_category: pl.DataFrame) -> pl.DataFrame:
    """How the time of each category moves along the complete steps of a phase.

    A straight line by least squares, against the summed context length where the labels give it,
    else against the step's place among its phase's: each decode step adds a token to each
    request.

    Returns:
        One row per rank, phase, batch and category with at least three steps: ``unit``
        (:data:`CONTEXT` or :data:`STEP`), ``steps``, ``slope_ns`` and ``slope_error_ns``
        (float64, per unit; the standard error of the slope).
    """
    complete = steps.filter(pl.col("status") == COMPLETE)
    rows = [
        (*key, category, *line)
        for key, group in complete.group_by(PHASE_KEYS, maintain_order=True)
        if group.height >= _FEWEST_STEPS
        for category, line in _lines(group, per_category)
    ]
    schema = {
        "rank": pl.UInt16,
        "phase": pl.String,
        "batch": pl.Int64,
        "category": pl.String,
        "unit": pl.String,
        "steps": pl.Int64,
        "slope_ns": pl.Float64,
        "slope_error_ns": pl.Float64,
    }
    return pl.DataFrame(rows, schema=schema, orient="row")


def _lines(
    steps: pl.DataFrame, per_category: pl.DataFrame
) -> list[tuple[str, tuple[str, int, float, float]]]:
    place, unit = _places(steps)
    if np.ptp(place) == 0:
        return []
    numbered = steps.select("rank", "step")
    mine = per_category.join(numbered, on=["rank", "step"], how="semi")
    found = []
    for category in mine["category"].unique().sort():
        times = numbered.join(
            mine.filter(pl.col("category") == category),
            on=["rank", "step"],
            how="left",
            maintain_order="left",
        )
        slope, error = _fit(place, times["kernel_ns"].fill_null(0).to_numpy().astype(float))
        found.append((category, (unit, steps.height, slope, error)))
    return found


def _places(steps: pl.DataFrame) -> tuple[np.ndarray[tuple[int], np.dtype[np.float64]], str]:
    known = "generation_kv_tokens" in steps.columns
    if known and not steps["generation_kv_tokens"].has_nulls():
        return steps["generation_kv_tokens"].to_numpy().astype(float), CONTEXT
    return np.arange(steps.height, dtype=float), STEP


def _fit(
    x: np.ndarray[tuple[int], np.dtype[np.float64]], y: np.ndarray[tuple[int], np.dtype[np.float64]]
) -> tuple[float, float]:
    """Slope of the least-squares line and its standard error.

    s_b = sqrt(sum of squared residuals / (n - 2) / sum of squared deviations of x).
    """
    dx = x - x.mean()
    slope = float(dx @ y / (dx @ dx))
    residuals = y - y.mean() - slope * dx
    return slope, float(np.sqrt(residuals @ residuals / (x.size - 2) / (dx @ dx)))
