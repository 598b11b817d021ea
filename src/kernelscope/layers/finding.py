"""The layers of a trace: fold each usual step, apply that to all steps, add up."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial

import numpy as np
import polars as pl

from kernelscope.layers.folding import fold_by_repetition
from kernelscope.layers.graph_names import GraphNames, Named, fold_by_names
from kernelscope.layers.line import Line
from kernelscope.layers.model import (
    BEFORE_LAYERS,
    BEHIND_LAYERS,
    LEFT,
    NOT_FOLDED,
    NVTX_AT_CAPTURE,
    Declined,
    Fold,
    Ints,
    Layers,
    PhaseLayers,
)
from kernelscope.layers.sequences import Sequences
from kernelscope.layers.tables import PhaseKey, kind_table, layer_table
from kernelscope.layers.units import order_of
from kernelscope.placement import Placed
from kernelscope.rules.tables import CUDA_GRAPH
from kernelscope.trace import Trace

_OUTSIDE = {-1: BEFORE_LAYERS, -2: BEHIND_LAYERS, -3: NOT_FOLDED}


def find_layers(
    placed: Placed, names: pl.DataFrame, steps: pl.DataFrame, trace: Trace | None = None
) -> Layers:
    """Fold the complete steps of each rank and phase into the layers of the model.

    Args:
        placed: every kernel in its step.
        names: one row per number in ``placed.work["name"]``: ``name``, ``category``.
        steps: the step table: ``rank``, ``phase``, ``step``, ``status``.
        trace: the capture, to look for NVTX ranges that name layers; without it layers are
            found by repetition alone.

    Raises:
        ExportError: the file is damaged.
    """
    sequences = Sequences.of(placed, names, steps)
    folder = _Folder.of(sequences, placed, trace)
    phases = list(_fold_phases(sequences, folder))
    folds = {phase.key: phase.usual for phase in phases if isinstance(phase.usual, Fold)}
    folded = [phase for phase in phases if phase.key in folds]
    counts = {phase.key: phase.steps.height for phase in phases}
    table = layer_table(_placed_units(sequences, folded), folds, counts)
    held = {phase.key: _categories(phase.line, folds[phase.key]) for phase in folded}
    found = tuple(phase.described() for phase in phases)
    return Layers(table, kind_table(table, held), found)


@dataclass(frozen=True, eq=False)
class _Phase:
    """One rank and phase: its steps, and how each distinct sequence of kernels folds."""

    key: PhaseKey
    steps: pl.DataFrame
    line: Line
    """The usual step."""
    usual: Fold | Declined
    folds: Mapping[int, Fold]
    """Sequence -> its fold, for those with the same layers as the usual one."""

    def folded_steps(self) -> int:
        return sum(sequence in self.folds for sequence in self.steps["sequence"])

    def described(self) -> PhaseLayers:
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


def _categories(line: Line, fold: Fold) -> dict[str, list[str]]:
    """What each kind of layer has in it, each category once, in launch order."""
    kinds = dict(enumerate(fold.kinds)) | _OUTSIDE
    held: dict[str, dict[str, None]] = {}
    for unit, category in zip(fold.unit.tolist(), line.categories, strict=True):
        held.setdefault(kinds[unit], {})[category] = None
    return {kind: list(categories) for kind, categories in held.items()}


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


def _fold_phases(sequences: Sequences, folder: _Folder) -> Iterator[_Phase]:
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
        yield _Phase((int(key[0]), str(key[1])), mine, line, usual, alike)


def _distinct(steps: pl.DataFrame) -> pl.DataFrame:
    """The first step of each distinct sequence, the most frequent one first."""
    return (
        steps.with_columns(often=pl.len().over("sequence"))
        .unique("sequence", keep="first", maintain_order=True)
        .sort("often", descending=True, maintain_order=True)
    )


def _placed_units(sequences: Sequences, phases: Iterable[_Phase]) -> pl.DataFrame:
    """Kernels and time of each layer in each step of the folded phases.

    A kernel's layer follows from its position in the step.
    """
    offsets = np.full(sequences.steps.height, -1, np.int64)
    is_folded = np.zeros(sequences.steps.height, bool)
    flat: list[Ints] = [np.full(1, LEFT, np.int64)]
    size = 1
    for phase in phases:
        rows, mine = phase.steps["row"].to_numpy(), phase.steps["sequence"].to_numpy()
        is_folded[rows] = True
        for sequence, fold in phase.folds.items():
            offsets[rows[mine == np.uint64(sequence)]] = size
            flat.append(fold.unit)
            size += fold.unit.size
    row = sequences.row
    at = np.where(offsets[row] < 0, 0, offsets[row] + sequences.position)
    is_kernel = (sequences.categories != CUDA_GRAPH).to_numpy()[sequences.work["name"].to_numpy()]
    work = sequences.work.select(
        pl.Series("row", row),
        pl.Series("unit", np.concatenate(flat)[at]),
        pl.Series("kernels", is_kernel),
        kernel_ns=pl.col("end_ns") - pl.col("start_ns"),
    )
    sums = work.filter(pl.Series(is_folded[row])).group_by("row", "unit").sum()
    return sums.with_columns(sequences.steps.select("rank", "phase")[sums["row"]])


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
