"""The result of a comparison, and its form as JSON. "Before" is the first trace."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

import polars as pl

from kernelscope.comparison.changes import SAME
from kernelscope.comparison.significance import Shift
from kernelscope.errors import PhaseNotFound
from kernelscope.frames import Schema

CATEGORY, OVERLAP, IDLE, BETWEEN = "category", "overlap", "idle", "between steps"
"""Kinds of parts of a step's time."""

PARTS: Schema = {
    "rank": pl.UInt16(),
    "phase": pl.String(),
    "kind": pl.String(),
    "part": pl.String(),
    "kernels_before": pl.Float64(),
    "kernels_after": pl.Float64(),
    "before_ms": pl.Float64(),
    "after_ms": pl.Float64(),
    "delta_ms": pl.Float64(),
    "shift_ms": pl.Float64(),
    "low_ms": pl.Float64(),
    "high_ms": pl.Float64(),
    "significant": pl.Boolean(),
}
"""One row per rank, phase and part of the step's time; ``delta_ms`` of them add up to that of the
mean step. ``before_ms`` and ``after_ms`` are means per step; overlap, kernel time beside other
kernels, counts negatively. ``shift_ms`` and the interval are robust, of the samples per step, and
``significant`` says whether the interval leaves out zero (null: too few steps)."""

PLACES: Schema = {
    "rank": pl.UInt16(),
    "phase": pl.String(),
    "change": pl.String(),
    "layer_kind": pl.String(),
    "role": pl.String(),
    "category": pl.String(),
    "places": pl.UInt32(),
    "kernel_before": pl.String(),
    "kernel_after": pl.String(),
    "before_ms": pl.Float64(),
    "after_ms": pl.Float64(),
    "delta_ms": pl.Float64(),
}
"""One row per rank, phase, kind of layer, role and pair of kernels in the usual step; times are
sums of medians over ``places``. ``change`` is one of
:data:`kernelscope.comparison.changes.KINDS`; several kernels of a side are joined by ``" + "``."""

_SMALLEST_MS = 1e-9


@dataclass(frozen=True)
class PhaseComparison:
    """One rank and phase of both traces.

    Attributes:
        rank: number of the rank.
        phase: name of the phase.
        measure: what a step's time is: ``"wall"`` (start to start) or ``"span"``, where a side
            has no step with a next one.
        steps: complete steps before and after.
        before_ms: median step before.
        after_ms: median step after.
        mean_before_ms: mean step before, mean span and mean time to the next step; the parts add
            up to it.
        mean_after_ms: mean step after.
        shift: by how much a step became longer, from the samples per step.
        usual: how many steps before and after have the sequence that was aligned.
        declined: why kernels were not aligned; empty if they were.
    """

    rank: int
    phase: str
    measure: str
    steps: tuple[int, int]
    before_ms: float
    after_ms: float
    mean_before_ms: float
    mean_after_ms: float
    shift: Shift
    usual: tuple[int, int]
    declined: str = ""

    @property
    def relative(self) -> float | None:
        """The shift as a fraction of the median step before."""
        return self.shift.ms / self.before_ms if self.before_ms else None

    def rose_above(self, limit: float) -> bool:
        """Whether steps became longer by more than that fraction, and significantly so."""
        grown = self.relative
        return bool(self.shift.is_significant) and grown is not None and grown > limit


@dataclass(frozen=True, eq=False)
class Comparison:
    """Two traces, phase by phase.

    Attributes:
        before: where the first one's numbers come from (:meth:`Summary.provenance`).
        after: the same of the second one.
        phases: one entry per rank and phase that both have.
        parts: what a step's time consists of, :data:`PARTS`.
        places: what became of each kernel of the usual step, :data:`PLACES`.
        notes: what was not comparable, and why.
    """

    before: Mapping[str, str]
    after: Mapping[str, str]
    phases: tuple[PhaseComparison, ...]
    parts: pl.DataFrame
    places: pl.DataFrame
    notes: tuple[str, ...]

    @property
    def is_empty(self) -> bool:
        """Whether every phase is in both traces, with the same kernels and the same times."""
        moved = self.parts.filter(pl.col("delta_ms").abs() > _SMALLEST_MS)
        return not self.notes and moved.is_empty() and self.changed().is_empty()

    def changed(self) -> pl.DataFrame:
        """The rows of :attr:`places` where a kernel is another one, or takes another time."""
        is_other = pl.col("change") != SAME
        return self.places.filter(is_other | (pl.col("delta_ms").abs() > _SMALLEST_MS))

    def only(self, phase: str) -> Comparison:
        """The same comparison of one phase.

        Raises:
            PhaseNotFound: the traces do not both have complete steps of that phase.
        """
        phases = tuple(found for found in self.phases if found.phase == phase)
        if not phases:
            there_are = ", ".join(dict.fromkeys(found.phase for found in self.phases)) or "none"
            raise PhaseNotFound(
                f"{self.before['trace']} and {self.after['trace']} do not both have a complete "
                f"{phase} step.",
                hint=f"Phases in both: {there_are}.",
            )
        of_phase = pl.col("phase") == phase
        parts, places = self.parts.filter(of_phase), self.places.filter(of_phase)
        return replace(self, phases=phases, parts=parts, places=places)

    def rows(self, table: pl.DataFrame, phase: PhaseComparison) -> pl.DataFrame:
        """The rows of a table that belong to one rank and phase."""
        return table.filter((pl.col("rank") == phase.rank) & (pl.col("phase") == phase.phase))

    def to_dict(self) -> dict[str, Any]:
        """The comparison as plain data for JSON; the keys are documented and stable."""
        return {
            "before": dict(self.before),
            "after": dict(self.after),
            "equal": self.is_empty,
            "phases": [
                asdict(phase)
                | {"relative": phase.relative, "significant": phase.shift.is_significant}
                | {
                    name: self.rows(table, phase).drop("rank", "phase").to_dicts()
                    for name, table in (("parts", self.parts), ("places", self.changed()))
                }
                for phase in self.phases
            ],
            "not_comparable": list(self.notes),
        }
