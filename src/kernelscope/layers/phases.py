"""The steps of each rank and phase, and how they fold into layers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial

import numpy as np
import polars as pl

from kernelscope.layers.folding import fold_by_repetition
from kernelscope.layers.graph_names import GraphNames, Named, fold_by_names
from kernelscope.layers.line import Line
from kernelscope.layers.model import NVTX_AT_CAPTURE, Declined, Fold, PhaseLayers
from kernelscope.layers.sequences import Sequences
from kernelscope.layers.tables import PhaseKey
from kernelscope.layers.units import order_of
from kernelscope.placement import Placed
from kernelscope.trace import Trace


@dataclass(frozen=True, eq=False)
class FoldedPhase:
    """One rank and phase: its steps, and how each distinct sequence of kernels folds.

    Attributes:
        key: rank and phase.
        steps: its rows of :attr:`Sequences.steps`, with the number of each as ``row``.
        line: the usual step.
        usual: how that folds.
        folds: sequence -> its fold, for those with the same layers as the usual one.
    """

    key: PhaseKey
    steps: pl.DataFrame
    line: Line
    usual: Fold | Declined
    folds: Mapping[int, Fold]

    def folded_steps(self) -> int:
        """How many steps fold as the usual one does."""
        return sum(sequence in self.folds for sequence in self.steps["sequence"])

    def row_of(self, sequence: int) -> int:
        """The row of the first step with that sequence."""
        return int(self.steps.filter(pl.col("sequence") == sequence)["row"][0])

    def described(self) -> PhaseLayers:
        """What was found, and what it rests on."""
        rank, phase = self.key
        fold = self.usual if isinstance(self.usual, Fold) else None
        kinds = pl.Series("kind", fold.kinds if fold else (), pl.String)
        counted = kinds.value_counts(sort=True).sort("count", descending=True, maintain_order=True)
        return PhaseLayers(
            rank=rank,
            phase=phase,
            source=fold.source if fold else None,
            layers=kinds.len(),
            kinds=tuple((str(kind), int(count)) for kind, count in counted.iter_rows()),
            order=order_of(fold.kinds) if fold else "",
            deviating=fold.deviating if fold else 0,
            steps=self.steps.height,
            folded_steps=self.folded_steps(),
            evidence=self._evidence(),
        )

    def _evidence(self) -> str:
        if isinstance(self.usual, Declined):
            return f"no layers found in {self.key[1]} steps: {self.usual.reason}."
        fold, kernels = self.usual, len(self.line.categories)
        by = "NVTX ranges open at graph capture name"
        if fold.source != NVTX_AT_CAPTURE:
            by = f"the {kernels:,} kernels of the usual step repeat as"
        sentence = f"{by} {len(fold.layers)} layers: {order_of(fold.kinds)}"
        if fold.deviating:
            sentence += f"; layers with other kernels than the rest of their kind: {fold.deviating}"
        left = self.steps.height - self.folded_steps()
        if left:
            sentence += f"; steps that do not fold so: {left} of {self.steps.height}"
        return f"{sentence}."


@dataclass(frozen=True, eq=False)
class _Folder:
    """Folds one step of each distinct sequence; equal sequences of other ranks fold alike."""

    sequences: Sequences
    named: Mapping[int, list[Named | None]]
    """Row of a step -> the layer ranges of its kernels, where the capture has any."""
    known: dict[int, Fold | Declined]

    @classmethod
    def of(cls, sequences: Sequences, placed: Placed, trace: Trace | None) -> _Folder:
        names = GraphNames.of(trace) if trace else None
        return cls(sequences, _named(names, sequences, placed) if names else {}, {})

    def fold(self, row: int) -> Fold | Declined:
        """How the step in that row of ``sequences.steps`` folds."""
        step = self.sequences.steps.row(row, named=True)
        line = partial(self.sequences.line, step["first"], step["kernels"])
        by_name = fold_by_names(line(), self.named[row]) if row in self.named else None
        if by_name:
            return by_name
        if step["sequence"] not in self.known:
            self.known[step["sequence"]] = fold_by_repetition(line())
        return self.known[step["sequence"]]


def fold_phases(
    sequences: Sequences, placed: Placed, trace: Trace | None = None
) -> Iterator[FoldedPhase]:
    """Fold the steps of each rank and phase.

    Args:
        sequences: the kernels of the complete steps.
        placed: every kernel in its step.
        trace: the capture, to look for NVTX ranges that name layers.

    Raises:
        ExportError: the file is damaged.
    """
    folder = _Folder.of(sequences, placed, trace)
    steps = sequences.steps.with_row_index("row").sort("rank", "phase", "step")
    for key, mine in steps.group_by(["rank", "phase"], maintain_order=True):
        distinct = _distinct(mine)
        folds = {
            sequence: folder.fold(row)
            for sequence, row in distinct.select("sequence", "row").iter_rows()
        }
        first = distinct.row(0, named=True)
        usual = folds[first["sequence"]]
        alike = {
            sequence: fold
            for sequence, fold in folds.items()
            if isinstance(fold, Fold) and isinstance(usual, Fold) and fold.layers == usual.layers
        }
        line = sequences.line(first["first"], first["kernels"])
        yield FoldedPhase((int(key[0]), str(key[1])), mine, line, usual, alike)


def _distinct(steps: pl.DataFrame) -> pl.DataFrame:
    """The first step of each distinct sequence, the most frequent one first."""
    return (
        steps.with_columns(often=pl.len().over("sequence"))
        .unique("sequence", keep="first", maintain_order=True)
        .sort("often", descending=True, maintain_order=True)
    )


def _named(
    names: GraphNames, sequences: Sequences, placed: Placed
) -> dict[int, list[Named | None]]:
    """The layer ranges of one step of each distinct sequence on each rank."""
    steps = sequences.steps.with_row_index("row")
    chosen = pl.concat(
        [_distinct(mine) for _, mine in steps.group_by(["rank", "phase"], maintain_order=True)]
    ).join(placed.ranks, on="rank", how="left", maintain_order="left")
    pieces = [
        sequences.work.slice(first, kernels).select(
            pl.lit(process).alias("process"),
            pl.lit(device, pl.Int32).alias("device"),
            "start_ns",
            "end_ns",
        )
        for first, kernels, process, device in chosen.select(
            "first", "kernels", "process", "device"
        ).iter_rows()
    ]
    found = names.layers_of(pl.concat(pieces))
    ends = np.cumsum(chosen["kernels"].to_numpy())
    begins = ends - chosen["kernels"].to_numpy()
    return {
        row: found[begin:end]
        for row, begin, end in zip(chosen["row"], begins.tolist(), ends.tolist(), strict=True)
    }
