"""What a step's time consists of, before and after: parts that add up to it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import polars as pl

from kernelscope.comparison.model import BETWEEN, CATEGORY, IDLE, OVERLAP, PARTS
from kernelscope.comparison.significance import find_shift
from kernelscope.layers.tables import PhaseKey
from kernelscope.step_table import COMPLETE
from kernelscope.summary import Summary

_NS_PER_MS = 1e6
Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Samples:
    """The complete steps of one rank and phase.

    Attributes:
        steps: their rows of the step table.
        walls: milliseconds from start to start, of steps that have a next one.
        spans: milliseconds from the first kernel's start to the last one's end.
        parts: (kind, name) -> milliseconds in each step; overlap is negative.
        kernels: category -> kernels per step.
    """

    steps: pl.DataFrame
    walls: Floats
    spans: Floats
    parts: dict[tuple[str, str], Floats]
    kernels: dict[str, float]

    @property
    def between_ms(self) -> float:
        """Mean time from the last kernel's end to the next step's start, where one follows."""
        followed = self.steps.filter(pl.col("wall_ns").is_not_null())
        return float(_ms(followed["wall_ns"] - followed["span_ns"]).mean())

    def mean_ms(self, *, walls: bool) -> float:
        """Mean step: its span and, if it lasts until the next one, the time between them."""
        return float(self.spans.mean()) + (self.between_ms if walls else 0.0)

    @classmethod
    def of(cls, summary: Summary, key: PhaseKey) -> Samples:
        """Take them out of a summary's tables."""
        rank, _ = key
        steps = complete_steps(summary, key)
        if "step" not in steps.columns:
            steps = steps.with_columns(step=pl.lit(0, pl.Int32))
        per_category = summary.table("step_category").filter(pl.col("rank") == rank)
        parts: dict[tuple[str, str], Floats] = {}
        kernels = {}
        for (category,), rows in per_category.group_by("category"):
            mine = steps.select("step").join(rows, on="step", how="left", maintain_order="left")
            if mine["kernels"].sum():
                parts[CATEGORY, str(category)] = _ms(mine["kernel_ns"].fill_null(0))
                kernels[str(category)] = float(mine["kernels"].sum()) / mine.height
        parts[OVERLAP, OVERLAP] = _ms(steps["busy_ns"] - steps["kernel_ns"])
        parts[IDLE, IDLE] = _ms(steps["span_ns"] - steps["busy_ns"])
        return cls(steps, _ms(steps["wall_ns"].drop_nulls()), _ms(steps["span_ns"]), parts, kernels)


def complete_steps(summary: Summary, key: PhaseKey) -> pl.DataFrame:
    """The rows of the step table that enter the averages of a rank and phase."""
    rank, phase = key
    return summary.table("step").filter(
        (pl.col("status") == COMPLETE) & (pl.col("rank") == rank) & (pl.col("phase") == phase)
    )


def part_table(key: PhaseKey, before: Samples, after: Samples, *, walls: bool) -> pl.DataFrame:
    """The parts of a step's time (:data:`PARTS`), categories that changed most first.

    Args:
        key: rank and phase.
        before: steps of the first trace.
        after: steps of the second one.
        walls: whether a step lasts until the next one starts.
    """
    rows: list[dict[str, object]] = []
    for kind, name in dict.fromkeys((*before.parts, *after.parts)):
        counts = [
            side.kernels.get(name, 0.0) if kind == CATEGORY else None for side in (before, after)
        ]
        first, second = (
            side.parts.get((kind, name), np.zeros(side.steps.height)) for side in (before, after)
        )
        shift = find_shift(first, second)
        rows.append(
            {"kind": kind, "part": name, "kernels_before": counts[0], "kernels_after": counts[1]}
            | _times(float(first.mean()), float(second.mean()))
            | {
                "shift_ms": shift.ms if shift else None,
                "low_ms": shift.low_ms if shift else None,
                "high_ms": shift.high_ms if shift else None,
                "significant": shift.is_significant if shift else None,
            }
        )
    if walls:
        between = [side.between_ms for side in (before, after)]
        rows.append({"kind": BETWEEN, "part": BETWEEN, **_times(*between)})
    table = pl.DataFrame(
        [{"rank": key[0], "phase": key[1], **row} for row in rows], schema=dict(PARTS)
    )
    is_category = pl.col("kind") == CATEGORY
    order = pl.when(is_category).then(-pl.col("delta_ms").abs()).otherwise(0.0)
    largest = pl.when(is_category).then(-pl.col("after_ms")).otherwise(0.0)
    by_name = pl.when(is_category).then("part").otherwise(pl.lit(""))
    return table.sort(is_category.not_(), order, largest, by_name, maintain_order=True)


def _times(before_ms: float, after_ms: float) -> dict[str, object]:
    return {"before_ms": before_ms, "after_ms": after_ms, "delta_ms": after_ms - before_ms}


def _ms(values: pl.Series) -> Floats:
    return values.to_numpy().astype(np.float64) / _NS_PER_MS
