"""Where one step ends and the next begins, around bodies that are known to recur.

A body is one launch that every step makes once. What is launched between two bodies belongs
partly to the one before (lm_head, sampling) and partly to the one after (input preparation).
The engine schedules between steps, so the cut is where the longest pause between launches is;
where many gaps have equally many launches, where it usually is, since equal steps are cut
alike.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int64]

# A gap with more launches than usual and a quarter holds something else, such as a prefill.
_MOST_EXTRA = 0.25
_MOST_EXTRA_LAUNCHES = 4
_STANDS_OUT = 2


def cut_around(
    bodies: Ints, pause_ns: Ints, foreign: Ints, own: int = 0
) -> tuple[Ints, Ints] | None:
    """The launches of each step.

    Args:
        bodies: position of each body in its thread's launches, ascending; two or more.
        pause_ns: time without a launch before each launch and at the end, shape (launches + 1,).
        foreign: positions of launches that belong to no such step, ascending.
        own: how many launches behind a body are surely of its step.

    Returns:
        Position of the first launch of each step, and behind the last; shape (bodies,) each.
        None if no body follows another without foreign launches between them.
    """
    size = np.diff(bodies) - 1
    foreign_before = np.searchsorted(foreign, bodies)
    is_crossed = np.diff(foreign_before) > 0
    if is_crossed.all():
        return None
    usual = most_common(size[~is_crossed])
    behind = _usual_cut(bodies, usual, np.flatnonzero(~is_crossed & (size == usual)), pause_ns, own)
    before = usual - behind
    is_own = ~is_crossed & (size <= usual + int(usual * _MOST_EXTRA) + _MOST_EXTRA_LAUNCHES)
    cut = _cuts(bodies, np.where(is_own, size, -1), pause_ns, own)
    slack = int(usual * _MOST_EXTRA) + _MOST_EXTRA_LAUNCHES
    edges = np.concatenate([[-1], foreign, [pause_ns.size - 1]])
    lowest, highest = edges[foreign_before] + 1, edges[foreign_before + 1]
    lowest[1:] = np.maximum(lowest[1:], bodies[:-1] + 1)
    first = np.maximum(bodies - before, lowest)
    last = np.minimum(bodies + 1 + behind, highest)
    first[1:][is_own] = last[:-1][is_own] = cut[is_own]
    for gap in np.flatnonzero(~np.append(False, is_own)).tolist():
        reach = (max(lowest[gap], first[gap] - slack), min(bodies[gap], first[gap] + slack))
        first[gap] = _stands_out(pause_ns, int(first[gap]), *reach)
        if gap:
            last[gap - 1] = min(last[gap - 1], first[gap])
    return first, last


def _stands_out(pause_ns: Ints, usual: int, lowest: int, highest: int) -> int:
    """Where a step begins that no other one precedes: at the usual distance from its body.

    Its input preparation may be longer than usual, which the pause before it shows.
    """
    if usual == 0:
        return 0
    best = lowest + int(np.argmax(pause_ns[lowest : highest + 1]))
    return best if pause_ns[best] // _STANDS_OUT >= pause_ns[usual] else usual


def most_common(values: Ints) -> int:
    """The value that occurs most often, of several the smallest."""
    found, times = np.unique(values, return_counts=True)
    return int(found[np.argmax(times)])


def _cuts(bodies: Ints, size: Ints, pause_ns: Ints, own: int) -> Ints:
    """Position of the first launch after the cut in each gap; gaps of one size are cut alike."""
    cut = bodies[:-1] + 1
    for one in np.unique(size[size >= 0]).tolist():
        alike = np.flatnonzero(size == one)
        cut[alike] += _usual_cut(bodies, one, alike, pause_ns, own)
    return cut


def _usual_cut(bodies: Ints, size: int, alike: Ints, pause_ns: Ints, own: int) -> int:
    """How many launches of gaps of one size belong to the body before."""
    own = min(own, size)
    within = bodies[alike][:, None] + 1 + np.arange(own, size + 1)
    return own + int(np.argmax(np.median(pause_ns[within], axis=0)))
