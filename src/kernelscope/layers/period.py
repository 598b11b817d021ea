"""Layers found by repetition alone, where no kernel is known to be a layer's core."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from kernelscope.layers.line import MULTIPLIES, NORM, Line
from kernelscope.layers.model import Ints
from kernelscope.rules.tables import UNKNOWN

_FEWEST = 3
_LEAST_COVERED = 0.5
_AS_GOOD = 0.95
"""A shorter unit is taken if it covers nearly as many kernels as a longer one."""


def cut_by_period(line: Line) -> Ints | None:
    """Boundaries of equal units, shape (units + 1,), or None where nothing repeats.

    A unit occurs at least three times in a row, holds a multiply or unknown kernels, and its
    repetition covers at least half of the step. It begins at its norm, if it has one.
    """
    codes = np.unique(np.array(line.symbols, dtype=np.str_), return_inverse=True)[1]
    runs = [_longest_run(codes, period) for period in range(2, codes.size // _FEWEST + 1)]
    covered = [end - begin for begin, end in runs]
    if not covered or max(covered) < _LEAST_COVERED * codes.size:
        return None
    best = next(at for at, size in enumerate(covered) if size >= _AS_GOOD * max(covered))
    begin, end = runs[best]
    return _boundaries(line, begin, end, best + 2)


def _longest_run(codes: npt.NDArray[np.intp], period: int) -> tuple[int, int]:
    """The longest stretch [begin, end) in which every kernel equals the one a period before."""
    equal = np.concatenate([[False], codes[period:] == codes[:-period], [False]])
    edges = np.flatnonzero(np.diff(equal))
    begins, ends = edges[::2], edges[1::2]
    if not begins.size or (ends - begins).max() < (_FEWEST - 1) * period:
        return 0, 0
    longest = int(np.argmax(ends - begins))
    return int(begins[longest]), int(ends[longest]) + period


def _boundaries(line: Line, begin: int, end: int, period: int) -> Ints | None:
    unit = line.categories[begin : begin + period]
    work = (*MULTIPLIES, UNKNOWN)
    if len(set(line.symbols[begin : begin + period])) == 1 or not set(unit) & set(work):
        return None
    first = begin + (unit.index(NORM) if NORM in unit else 0)
    return np.arange(first, end + 1, period)
