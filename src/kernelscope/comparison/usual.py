"""The usual step of each phase: the sequence of kernels that most steps have."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import polars as pl

from kernelscope.analysis import Analysis
from kernelscope.comparison.places import name_layers, name_roles
from kernelscope.layers.phases import FoldedPhase, fold_phases
from kernelscope.layers.sequences import Sequences
from kernelscope.layers.tables import PhaseKey
from kernelscope.trace import Trace

_NS_PER_MS = 1e6
_MOST_STEPS = 1_000
"""Looked at per phase; medians over more do not move, and memory stays small."""


@dataclass(frozen=True, eq=False)
class UsualStep:
    """The kernels of the usual step, in launch order.

    Attributes:
        names: full kernel names, the most frequent one at each position.
        short_names: the same without parameters.
        categories: category of each kernel.
        layers: kind of layer, or part outside of the layers.
        roles: role in the layer.
        ms: median milliseconds at each position, float64, shape (kernels,).
        steps: how many steps have this sequence.
        of: how many complete steps there are.
    """

    names: tuple[str, ...]
    short_names: tuple[str, ...]
    categories: tuple[str, ...]
    layers: tuple[str, ...]
    roles: tuple[str, ...]
    ms: npt.NDArray[np.float64]
    steps: int
    of: int


def find_usual_steps(
    trace: Trace, found: Analysis, steps: pl.DataFrame
) -> dict[PhaseKey, UsualStep]:
    """The usual step of each rank and phase that has complete steps.

    Raises:
        ExportError: the file is damaged.
    """
    sequences = Sequences.of(found.placed, found.names, steps)
    return {
        folded.key: _usual(folded, sequences, found.names)
        for folded in fold_phases(sequences, found.placed, trace)
    }


def _usual(folded: FoldedPhase, sequences: Sequences, names: pl.DataFrame) -> UsualStep:
    count = len(folded.line.categories)
    often = folded.steps.group_by("sequence", maintain_order=True).len()
    often = often.sort("len", descending=True, maintain_order=True)
    mine = folded.steps.filter(pl.col("sequence") == often["sequence"][0])
    rows = mine["first"].to_numpy()[:_MOST_STEPS, None] + np.arange(count)
    number = _most_frequent(sequences.work["name"].to_numpy()[rows])
    work = sequences.work
    ns = (work["end_ns"] - work["start_ns"]).to_numpy()[rows]
    shown = names[number]
    return UsualStep(
        tuple(shown["name"]),
        tuple(shown["short_name"]),
        tuple(shown["category"]),
        name_layers(folded.usual, count),
        name_roles(folded.line, folded.usual),
        np.median(ns, axis=0) / _NS_PER_MS,
        mine.height,
        folded.steps.height,
    )


def _most_frequent(names: npt.NDArray[np.int32]) -> npt.NDArray[np.int32]:
    """The most frequent number of each column; names differ at few positions only."""
    usual: npt.NDArray[np.int32] = names[0].copy()
    for column in np.flatnonzero((names != usual).any(axis=0)):
        values, counts = np.unique(names[:, column], return_counts=True)
        usual[column] = values[counts.argmax()]
    return usual
