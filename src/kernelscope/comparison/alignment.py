"""Two steps aligned kernel by kernel, so that what changed stands beside what it was."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from kernelscope.comparison.usual import UsualStep

Ints = npt.NDArray[np.int64]

_MOST_CELLS = 40_000_000
"""Of the table of one alignment, 4 bytes each; steps of 6,000 kernels are within it."""
_CATEGORY, _PLACE, _NAME = 4, 2, 3
"""What a pair is worth for being of one category, in one place, and the same kernel."""


@dataclass(frozen=True)
class Block:
    """Kernels of both sides that stand for each other: positions, ascending.

    ``pairs`` are those of one category; what is in none has no counterpart. A block of one pair
    with the same name is a kernel that stayed.
    """

    before: tuple[int, ...]
    after: tuple[int, ...]
    pairs: tuple[tuple[int, int], ...]


def align(before: UsualStep, after: UsualStep) -> list[Block] | None:
    """Blocks in launch order that cover every kernel of both steps once.

    Returns:
        None if the steps are too long to be aligned.
    """
    if len(before.names) * len(after.names) > _MOST_CELLS:
        return None
    pairs = _pairs(before, after)
    return list(_blocks(before, after, pairs))


def _pairs(before: UsualStep, after: UsualStep) -> list[tuple[int, int]]:
    """The pairs of the alignment that is worth most; only one category is ever paired."""
    category = _codes(before.categories, after.categories)
    name = _codes(before.names, after.names)
    place = _codes(
        list(zip(before.layers, before.roles, strict=True)),
        list(zip(after.layers, after.roles, strict=True)),
    )

    def worth(row: int) -> npt.NDArray[np.int32]:
        same = category[0][row] == category[1]
        more = _PLACE * (place[0][row] == place[1]) + _NAME * (name[0][row] == name[1])
        return np.where(same, _CATEGORY + more, 0).astype(np.int32)

    rows, columns = len(before.names), len(after.names)
    best = np.zeros((rows + 1, columns + 1), np.int32)
    for row in range(rows):
        reached = np.maximum(best[row, 1:], best[row, :-1] + worth(row))
        best[row + 1, 1:] = np.maximum.accumulate(reached)
    found = []
    row, column = rows, columns
    while row and column:
        here = best[row, column]
        gain = here - best[row - 1, column - 1]
        if gain and gain == worth(row - 1)[column - 1]:
            row, column = row - 1, column - 1
            found.append((row, column))
        elif here == best[row - 1, column]:
            row -= 1
        else:
            column -= 1
    return found[::-1]


def _codes(before: Sequence[object], after: Sequence[object]) -> tuple[Ints, Ints]:
    """Equal numbers for equal things of both sides."""
    numbers: dict[object, int] = {}
    first, second = (
        np.array([numbers.setdefault(one, len(numbers)) for one in side], np.int64)
        for side in (before, after)
    )
    return first, second


def _blocks(
    before: UsualStep, after: UsualStep, pairs: Sequence[tuple[int, int]]
) -> Iterator[Block]:
    """Cut at the kernels that stayed."""
    end = (len(before.names), len(after.names))
    changed: list[tuple[int, int]] = []
    at = (0, 0)
    for a, b in [*pairs, end]:
        if (a, b) != end and before.names[a] != after.names[b]:
            changed.append((a, b))
            continue
        block = Block(tuple(range(at[0], a)), tuple(range(at[1], b)), tuple(changed))
        if block.before or block.after:
            yield block
        if (a, b) != end:
            yield Block((a,), (b,), ((a, b),))
        changed, at = [], (a + 1, b + 1)
