"""The kernels of complete steps in launch order, and which steps have the same sequence."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import polars as pl

from kernelscope.intervals import run_starts
from kernelscope.layers.line import Line
from kernelscope.layers.model import Ints
from kernelscope.placement import Placed
from kernelscope.rules.tables import UNKNOWN
from kernelscope.step_table import COMPLETE, TRACE

_NUMBERS = r"\d+"


@dataclass(frozen=True, eq=False)
class Sequences:
    """Complete steps with their kernels.

    Attributes:
        work: their kernels, sorted by step on its rank and start: ``start_ns``, ``end_ns``,
            ``group``, ``name`` (:attr:`kernelscope.placement.Placed.work`).
        position: place of each kernel in its step, from 0; shape (kernels,).
        row: row in ``steps`` of each kernel; shape (kernels,).
        steps: one row per complete step with work: ``rank``, ``phase``, ``step``, ``group``,
            ``first`` (its first row in ``work``), ``kernels``, ``sequence`` (equal for steps with
            the same symbols in the same order).
        categories: category of each name.
        symbols: what makes two kernels the same: the category, or a name without numbers where
            that is unknown. Inductor numbers its kernels and cuBLAS changes its tiles from
            layer to layer.
    """

    work: pl.DataFrame
    position: Ints
    row: Ints
    steps: pl.DataFrame
    categories: pl.Series
    symbols: pl.Series

    @classmethod
    def of(cls, placed: Placed, names: pl.DataFrame, steps: pl.DataFrame) -> Sequences:
        """Take the complete steps out of all work, in launch order."""
        groups = _complete(placed, steps)
        work = placed.work.filter(pl.col("group").is_in(groups["group"].implode()))
        group = work["group"].to_numpy()
        first = run_starts(group)
        kernels = np.diff(first, append=group.size)
        row = np.repeat(np.arange(first.size), kernels)
        position = np.arange(group.size) - first[row]
        symbols = _symbols(names)
        sequence = _sequence(symbols, work["name"].to_numpy(), position, first)
        found = pl.DataFrame(
            {"group": group[first], "first": first, "kernels": kernels, "sequence": sequence}
        ).join(groups, on="group", how="left", maintain_order="left")
        return cls(work, position, row, found, names["category"], symbols)

    def line(self, first: int, kernels: int) -> Line:
        """The step whose kernels begin at that row of ``work``."""
        name = self.work["name"].slice(first, kernels)
        return Line(tuple(self.categories.gather(name)), tuple(self.symbols.gather(name)))


def _complete(placed: Placed, steps: pl.DataFrame) -> pl.DataFrame:
    """Groups of the steps that count; a trace without steps has none."""
    counts = (pl.col("status") == COMPLETE) & (pl.col("phase") != TRACE)
    wanted = steps.filter(counts).select("rank", "phase", "step")
    return wanted.join(placed.groups, on=["rank", "step"])


def _symbols(names: pl.DataFrame) -> pl.Series:
    is_unknown = pl.col("category") == UNKNOWN
    plain = pl.col("name").str.replace_all(_NUMBERS, "")
    return names.select(pl.when(is_unknown).then(plain).otherwise("category")).to_series()


def _sequence(
    symbols: pl.Series, name: npt.NDArray[np.int32], position: Ints, first: Ints
) -> npt.NDArray[np.uint64]:
    """A number for each step that depends on its symbols and their order, shape (steps,)."""
    if not first.size:
        return np.zeros(0, np.uint64)
    code = symbols.rank("dense").to_numpy().astype(np.uint64)[name]
    mixed = _mix(_mix(code) + position.astype(np.uint64))
    return np.add.reduceat(mixed, first)


def _mix(values: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
    """Scatter 64-bit numbers (the finalizer of SplitMix64); overflow wraps, as it should."""
    values = (values + np.uint64(0x9E3779B97F4A7C15)) * np.uint64(0xBF58476D1CE4E5B9)
    values ^= values >> np.uint64(30)
    values *= np.uint64(0x94D049BB133111EB)
    return values ^ (values >> np.uint64(27))
