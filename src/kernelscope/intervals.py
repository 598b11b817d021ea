"""Arithmetic on time intervals held as int64 nanosecond arrays.

Every function takes arrays of shape ``(n,)``; ``group`` assigns each interval to one group
(a step on one device, say) and results have one entry per group, shape ``(groups,)``.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Int64 = npt.NDArray[np.int64]
Groups = npt.NDArray[np.integer]


def run_starts(values: npt.NDArray[np.generic]) -> npt.NDArray[np.intp]:
    """Positions at which a run of equal values begins, the first one included.

    Args:
        values: shape (n,).

    Returns:
        Shape (runs,); empty for no values.
    """
    changes = np.ones(values.size, bool)
    np.not_equal(values[1:], values[:-1], out=changes[1:])
    return np.flatnonzero(changes)


def idle_before(start_ns: Int64, end_ns: Int64, group: Groups) -> Int64:
    """Idle time directly before each interval within its group, in ns.

    It runs from the latest end so far in the group; 0 for a group's first interval and where the
    interval before is still running.

    Args:
        start_ns: int64, shape (n,), sorted by group, then start.
        end_ns: int64, shape (n,), each at least its start.
        group: integers of at least 0, shape (n,).
    """
    idle = np.zeros_like(start_ns)
    if start_ns.size == 0:
        return idle
    np.subtract(start_ns[1:], end_ns[:-1], out=idle[1:])
    idle[1:][group[1:] != group[:-1]] = 0
    if int(idle.min()) < 0:
        # Only groups in which intervals overlap need the latest end of all before.
        crowded = np.zeros(int(group.max()) + 1, bool)
        crowded[group[idle < 0]] = True
        mine = np.flatnonzero(crowded[group])
        idle[mine] = _idle_of_crowded(start_ns[mine], end_ns[mine], group[mine])
    return idle


def _idle_of_crowded(start: Int64, end: Int64, group: Groups) -> Int64:
    """The same by the running maximum of ends.

    The groups are laid one after another on a common axis, so that one running maximum over the
    whole array serves all of them.
    """
    first = run_starts(group)
    length = np.maximum.reduceat(end, first) - start[first]
    begin = np.concatenate(([0], np.cumsum(length)[:-1]))
    shift = np.repeat(begin - start[first], np.diff(first, append=group.size))
    latest_end = np.maximum.accumulate(end + shift)
    idle = np.zeros_like(start)
    np.subtract(start[1:] + shift[1:], latest_end[:-1], out=idle[1:])
    return np.maximum(idle, 0)


def covered(start_ns: Int64, end_ns: Int64, group: Groups) -> int:
    """Time in which at least one interval runs, in ns, added up over the groups.

    Args:
        start_ns: int64, shape (n,), sorted by group, then start.
        end_ns: int64, shape (n,), each at least its start.
        group: integers of at least 0, shape (n,).
    """
    if start_ns.size == 0:
        return 0
    first = run_starts(group)
    length = np.maximum.reduceat(end_ns, first) - start_ns[first]
    return int(length.sum() - idle_before(start_ns, end_ns, group).sum())
