"""The matched steps of one phase against the ceilings of their GPU."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import polars as pl

from kernelscope.ceilings.gpus import Peaks
from kernelscope.ceilings.matching import OTHER, Match
from kernelscope.ceilings.model import COMPUTE, MEMORY, ROOFLINE
from kernelscope.ceilings.work import Multiply, Work
from kernelscope.ceilings.workload import Floats, Workload
from kernelscope.layers.sequences import Sequences

_NS_PER_MS = 1e6
_MS_PER_S = 1e3


@dataclass(frozen=True, eq=False)
class MatchedSteps:
    """Steps of one rank and phase whose kernels are tied to work.

    Attributes:
        key: rank and phase.
        steps: their rows of the step table, with ``row``, ``first``, ``kernels`` and
            ``sequence`` of :attr:`Sequences.steps`.
        matches: how each sequence of kernels is matched; all have the same works and calls.
        workload: what the steps had to compute.
        sequences: the kernels.
        peaks: of the GPU.
    """

    key: tuple[int, str]
    steps: pl.DataFrame
    matches: Mapping[int, Match]
    workload: Workload
    sequences: Sequences
    peaks: Peaks

    @property
    def match(self) -> Match:
        """Any of the matches, for what they have in common."""
        return next(iter(self.matches.values()))

    @cached_property
    def times_ms(self) -> Floats:
        """Kernel time of each work per step, mean; shape (works + 1,), the last for the rest."""
        work = self.sequences.work
        duration = work["end_ns"].to_numpy() - work["start_ns"].to_numpy()
        total = np.zeros(len(self.match.works) + 1)
        for sequence, match in self.matches.items():
            mine = self.steps.filter(pl.col("sequence") == sequence)
            at = mine["first"].to_numpy()[:, None] + np.arange(match.slot.size)
            slot = np.where(match.slot == OTHER, total.size - 1, match.slot)
            total += np.bincount(slot, duration[at].sum(axis=0), total.size)
        return np.asarray(total / self.steps.height / _NS_PER_MS)

    @cached_property
    def categories(self) -> frozenset[str]:
        """Of all kernels of the steps."""
        held = self.sequences.work["name"]
        names = [
            held.slice(first, kernels).unique()
            for first, kernels in self.steps.unique("sequence").select("first", "kernels").rows()
        ]
        return frozenset(self.sequences.categories.gather(pl.concat(names)))

    @cached_property
    def floors(self) -> list[Floor]:
        """The floor of each work."""
        pairs = zip(self.match.works, self.match.calls, strict=True)
        return [Floor(work, calls, self.workload, self.peaks) for work, calls in pairs]

    @cached_property
    def step_floor_ms(self) -> float:
        """All works one after the other, mean; work of unknown size counts as none."""
        return sum(float(np.nan_to_num(floor.floor_ms).mean()) for floor in self.floors)

    def table(self) -> pl.DataFrame:
        """One row per work (:data:`kernelscope.ceilings.model.ROOFLINE`)."""
        rank, phase = self.key
        rows = [
            {"rank": rank, "phase": phase, **floor.row(float(kernel_ms))}
            for floor, kernel_ms in zip(self.floors, self.times_ms[:-1], strict=True)
        ]
        return pl.DataFrame(rows, schema=dict(ROOFLINE))


@dataclass(frozen=True, eq=False)
class Floor:
    """The least time that one work takes in each step: the roofline model.

    Williams, Waterman and Patterson, Roofline (CACM 52, 2009): time is at least bytes over
    bandwidth, and at least operations over their peak.
    """

    work: Work
    calls: int
    workload: Workload
    peaks: Peaks

    @cached_property
    def bytes(self) -> Floats:
        """Of all calls; shape (steps,)."""
        return self.calls * self.work.bytes(self.workload)

    @cached_property
    def flops(self) -> Floats:
        """Of all calls; shape (steps,)."""
        return self.calls * self.work.flops(self.workload)

    @cached_property
    def memory_ms(self) -> Floats:
        """Shape (steps,)."""
        return self.bytes / self.peaks.bandwidth_bytes_per_s * _MS_PER_S

    @cached_property
    def compute_ms(self) -> Floats:
        """Shape (steps,)."""
        return self.flops / self.peaks.compute(self.work.compute) * _MS_PER_S

    @property
    def floor_ms(self) -> Floats:
        """Shape (steps,); NaN where it is not known."""
        return np.maximum(self.memory_ms, self.compute_ms)

    def row(self, kernel_ms: float) -> dict[str, Any]:
        """Means over the steps, beside the time that was measured."""
        work, per_s = self.work, _MS_PER_S / kernel_ms if kernel_ms else None
        size, flops = _mean(self.bytes), _mean(self.flops)
        floor_ms = _mean(self.floor_ms)
        is_memory = self.memory_ms.sum() >= self.compute_ms.sum()
        return {
            "name": work.name,
            "kind": work.kind,
            "format": work.format.name if isinstance(work, Multiply) else None,
            "n": work.n if isinstance(work, Multiply) else None,
            "k": work.k if isinstance(work, Multiply) else None,
            "calls": self.calls,
            "weight_bytes": self.calls * _mean(work.weight_bytes(self.workload)),  # type: ignore[operator]
            "bytes": size,
            "flops": flops,
            "kernel_ms": kernel_ms,
            "bytes_per_s": _times(size, per_s),
            "flops_per_s": _times(flops, per_s),
            "floor_ms": floor_ms,
            "of_peak": None if floor_ms is None or not kernel_ms else floor_ms / kernel_ms,
            "bound": None if floor_ms is None else MEMORY if is_memory else COMPUTE,
        }


def _mean(values: Floats) -> float | None:
    return None if np.isnan(values).any() else float(values.mean())


def _times(one: float | None, other: float | None) -> float | None:
    return None if one is None or other is None else one * other
