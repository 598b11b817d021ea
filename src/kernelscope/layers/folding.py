"""One step folded into its layers, by the kernels that repeat in it."""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from kernelscope.layers.cores import cut_by_cores
from kernelscope.layers.line import Line
from kernelscope.layers.model import BEFORE, BEHIND, REPETITION, Declined, Fold, Ints, Layer
from kernelscope.layers.period import cut_by_period
from kernelscope.layers.units import compare, layer_kind
from kernelscope.rules.tables import CUDA_GRAPH


def fold_by_repetition(line: Line) -> Fold | Declined:
    """Fold a step, or say why it cannot be folded; it never guesses."""
    if CUDA_GRAPH in line.categories:
        return Declined(
            "the graph replays were recorded as a whole, without their kernels; "
            "capture with --cuda-graph-trace=node"
        )
    cuts = cut_by_cores(line)
    if cuts is None:
        cuts = cut_by_period(line)
    if cuts is None:
        return Declined("no unit of its kernels repeats")
    return _named(line, cuts)


def _named(line: Line, cuts: Ints) -> Fold | Declined:
    rows = [line.categories[begin:end] for begin, end in pairwise(cuts.tolist())]
    kinds = [layer_kind(row) for row in rows]
    likeness = compare(kinds, rows)
    if not likeness.is_repetition(len(rows)):
        return Declined(
            f"{likeness.unlike} of {len(rows)} parts that might be layers have other kernels "
            "than the rest"
        )
    layers = tuple(Layer(index, kind) for index, kind in enumerate(kinds))
    unit = unit_of_kernels(cuts, len(line.categories))
    return Fold(unit, layers, REPETITION, likeness.deviating)


def unit_of_kernels(cuts: Ints, kernels: int) -> Ints:
    """The layer between ``cuts`` that each kernel is in, or what it is outside of."""
    unit = np.searchsorted(cuts, np.arange(kernels), side="right") - 1
    unit[: cuts[0]] = BEFORE
    unit[cuts[-1] :] = BEHIND
    return unit.astype(np.int64)
