"""Arithmetic on time intervals held as int64 nanosecond arrays.

Every function takes arrays of shape ``(n,)``; ``group`` assigns each interval to one group
(a step on one device, say) and results have one entry per group, shape ``(groups,)``.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Int64 = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Gaps:
    """Idle times between intervals, shape (gaps,) each."""

    position: Int64
    began_ns: Int64
    length_ns: Int64


def union_ns(start_ns: Int64, end_ns: Int64, group: npt.NDArray[np.integer], groups: int) -> Int64:
    """Time covered by at least one interval, per group, in ns.

    Intervals may overlap and come in any order. Each contributes the part of itself that no
    earlier-starting interval of its group has covered: ``max(0, end - max(start, latest end
    so far))``.

    Args:
        start_ns: int64, shape (n,).
        end_ns: int64, shape (n,), each at least its start.
        group: integers in ``[0, groups)``, shape (n,).
        groups: how many groups there are.
    """
    total = np.zeros(groups, np.int64)
    if start_ns.size == 0:
        return total
    start, end, group = _sorted_by_group(start_ns, end_ns, group)
    first = np.flatnonzero(np.diff(group, prepend=-1))
    total[group[first]] = np.add.reduceat(end - start, first)
    crowded = np.zeros(groups, bool)
    crowded[group[1:][(start[1:] < end[:-1]) & (group[1:] == group[:-1])]] = True
    if crowded.any():
        # Only groups in which intervals overlap need more than their sum.
        mine = np.flatnonzero(crowded[group])
        total[crowded] = _union_of_sorted(start[mine], end[mine], group[mine])
    return total


def _union_of_sorted(start: Int64, end: Int64, group: npt.NDArray[np.integer]) -> Int64:
    """Union per group that occurs, in order of group; sorted by group, then start."""
    first = np.flatnonzero(np.diff(group, prepend=-1))
    shift = np.repeat(_disjoint_shift(start, end, first), np.diff(first, append=group.size))
    start, end = start + shift, end + shift
    latest_end = np.maximum.accumulate(end)
    new = end - start
    np.subtract(end[1:], np.maximum(start[1:], latest_end[:-1]), out=new[1:])
    np.maximum(new, 0, out=new)
    return np.asarray(np.add.reduceat(new, first), np.int64)


def gaps(start_ns: Int64, end_ns: Int64, group: npt.NDArray[np.integer]) -> Gaps:
    """The idle times between intervals of one group.

    Args:
        start_ns: int64, shape (n,), sorted by group, then start.
        end_ns: int64, shape (n,).
        group: integers, shape (n,).

    Returns:
        One entry per gap: position of the interval that ends it, when the gap began (the latest
        end so far in its group) and its length in ns, all above 0.
    """
    if start_ns.size == 0:
        nothing = np.zeros(0, np.int64)
        return Gaps(nothing, nothing, nothing)
    first = np.flatnonzero(np.diff(group, prepend=-1))
    shift = np.repeat(_disjoint_shift(start_ns, end_ns, first), np.diff(first, append=group.size))
    latest_end = np.maximum.accumulate(end_ns + shift) - shift
    idle = start_ns[1:] - latest_end[:-1]
    same = group[1:] == group[:-1]
    after = np.flatnonzero(same & (idle > 0)) + 1
    return Gaps(after, latest_end[after - 1], idle[after - 1])


def _sorted_by_group(
    start: Int64, end: Int64, group: npt.NDArray[np.integer]
) -> tuple[Int64, Int64, npt.NDArray[np.integer]]:
    """The three arrays in order of group, then start; untouched where they already are."""
    if _is_sorted(start, group):
        return start, end, group
    order = np.lexsort((start, group))
    return start[order], end[order], group[order]


def _is_sorted(start: Int64, group: npt.NDArray[np.integer]) -> bool:
    later_group = group[1:] > group[:-1]
    return bool(np.all(later_group | ((group[1:] == group[:-1]) & (start[1:] >= start[:-1]))))


def _disjoint_shift(start: Int64, end: Int64, first: npt.NDArray[np.intp]) -> Int64:
    """Per group, the shift that lays the groups one after another on a common axis.

    With the groups apart, one running maximum over the whole array serves all of them.
    """
    length = np.maximum.reduceat(end, first) - start[first]
    begin = np.concatenate(([0], np.cumsum(length)[:-1]))
    return np.asarray(begin - start[first], np.int64)
