"""The kernels of a step tied to the work of the model, by their order in each layer."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from kernelscope.ceilings.architecture import Architecture
from kernelscope.ceilings.work import GEMM, MOE_GEMM, Multiply, Work
from kernelscope.layers.line import NORM, SPLIT_K, Line
from kernelscope.layers.model import BEHIND, Declined, Fold, Ints
from kernelscope.layers.units import layer_kind

OTHER = -1
"""Stands in place of a work's number for kernels that are none of the model's counted work."""
_MOST_TOLD = 3


@dataclass(frozen=True, eq=False)
class Match:
    """The work of each kernel of a step.

    Attributes:
        works: distinct pieces of work, in launch order.
        calls: how often a step does each; shape (works,).
        slot: number of the work that each kernel belongs to, or :data:`OTHER`; shape
            (kernels,), in launch order.
        unmatched: multiplies outside the layers that the configuration does not have, such as
            those of a draft model.
    """

    works: tuple[Work, ...]
    calls: tuple[int, ...]
    slot: Ints
    unmatched: int


def match_step(line: Line, fold: Fold, architecture: Architecture) -> Match | Declined:
    """Tie the kernels of a step to the work of an architecture.

    In each layer the multiplies must be as many as the configuration lists, grouped ones
    (experts) and others each; then they are matched in order. A split-K reduction belongs to
    the multiply before it. Attention, recurrence and convolution get all kernels of their
    category in the layer. lm_head is the first multiply behind the final norm.
    """
    layers = architecture.layers
    units = [_Unit(line, np.flatnonzero(fold.unit == at)) for at in range(len(fold.layers))]
    wrong = _other_layers(units, architecture) or _two_of_a_kind(architecture)
    if wrong:
        return Declined(wrong)
    differences = Counter(
        (layer.mixer, difference)
        for layer, unit in zip(layers, units, strict=True)
        for difference in unit.differences(layer.works)
    )
    if differences:
        return Declined(_told(differences))
    head = _head(line, fold)
    if head.multiplies(GEMM).size < len(architecture.head):
        return Declined("no multiply behind the layers is lm_head")
    works = [*(layer.works for layer in layers), architecture.head]
    return _matched(line, list(zip([*units, head], works, strict=True)))


@dataclass(frozen=True, eq=False)
class _Unit:
    """The kernels of one layer: their positions in the step, ascending."""

    line: Line
    at: Ints

    def multiplies(self, categories: Iterable[str]) -> Ints:
        return self.at[np.isin(self.line.array[self.at], list(categories))]

    def differences(self, works: Sequence[Work]) -> Iterator[tuple[int, int, str, str]]:
        """Where the count does not agree: found, expected, of what, and the expected names."""
        for categories, what in ((GEMM, "multiplies"), (MOE_GEMM, "grouped multiplies")):
            wanted = _multiplies(works, categories)
            found = self.multiplies(categories).size
            if found != len(wanted):
                yield found, len(wanted), what, ", ".join(work.name for work in wanted)

    def pairs(self, works: Sequence[Work]) -> Iterator[tuple[Work, Ints]]:
        """Each piece of work with the positions of its kernels."""
        for categories in (GEMM, MOE_GEMM):
            wanted, found = _multiplies(works, categories), self.multiplies(categories)
            for number, work in enumerate(wanted):
                yield work, found[number : number + 1]
        for work in works:
            if not isinstance(work, Multiply):
                yield work, self.multiplies(work.categories)


def _head(line: Line, fold: Fold) -> _Unit:
    """What stands behind the layers, from the final norm on, if there is one."""
    behind = np.flatnonzero(fold.unit == BEHIND)
    norms = behind[line.array[behind] == NORM]
    return _Unit(line, behind[behind >= norms[0]] if norms.size else behind)


def _multiplies(works: Iterable[Work], categories: tuple[str, ...]) -> list[Work]:
    return [work for work in works if isinstance(work, Multiply) and work.categories == categories]


def _matched(line: Line, units: Sequence[tuple[_Unit, Sequence[Work]]]) -> Match:
    number = {work: at for at, work in enumerate(dict.fromkeys(w for _, ws in units for w in ws))}
    slot = np.full(len(line.categories), OTHER, np.int64)
    for unit, works in units:
        for work, positions in unit.pairs(works):
            slot[positions] = number[work]
    calls = Counter(work for _, works in units for work in works)
    unmatched = int(np.count_nonzero(slot[line.multiplies] == OTHER))
    return Match(
        tuple(number), tuple(calls[work] for work in number), _with_split_k(line, slot), unmatched
    )


def _with_split_k(line: Line, slot: Ints) -> Ints:
    """Reductions of split-K get the work of the multiply before them."""
    reductions = line.where([SPLIT_K])
    before = np.searchsorted(line.multiplies, reductions) - 1
    known = before >= 0
    slot = slot.copy()
    slot[reductions[known]] = slot[line.multiplies[before[known]]]
    return slot


def _other_layers(units: Sequence[_Unit], architecture: Architecture) -> str | None:
    """What keeps the layers of a step from being those of the configuration."""
    if len(units) != len(architecture.layers):
        return f"the step has {len(units)} layers and the configuration {len(architecture.layers)}"
    for at, (unit, layer) in enumerate(zip(units, architecture.layers, strict=True)):
        kind = layer_kind(tuple(unit.line.categories[place] for place in unit.at.tolist()))
        if kind.split(" + ")[0] != layer.mixer:
            return f"layer {at} is {kind} in the trace and has {layer.mixer} in the configuration"
    return None


def _two_of_a_kind(architecture: Architecture) -> str | None:
    for layer in architecture.layers:
        cores = Counter(work.categories for work in layer.works if not isinstance(work, Multiply))
        if cores and max(cores.values()) > 1:
            return (
                "the attention of prompts and that of generating requests run in kernels that "
                "cannot be told apart"
            )
    return None


def _told(differences: Counter[tuple[str, tuple[int, int, str, str]]]) -> str:
    """The most frequent differences, each with what was expected."""
    told = [
        f"{layers} {mixer} layers have {found} {what} where the configuration has {expected}"
        + (f" ({names})" if names else "")
        for (mixer, (found, expected, what, names)), layers in differences.most_common(_MOST_TOLD)
    ]
    return "; ".join(told)
