"""Which launches of a thread recur once per step.

Of the launches of a thread, each distinct one (a kernel's name, or all that one graph launch
ran) is a candidate, and the pieces from one of its occurrences to the next are compared. What
occurs once per step makes runs of equal pieces. So does what occurs once per layer, but a step
copies its input in or its tokens out, which no layer does; and what occurs once per request
makes larger pieces than what occurs once per step.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]

LEAST_STEPS = 3
"""How often something must recur before it is taken for a step."""

# Equal steps differ by a few kernels: a block table is extended every few tokens.
_TOLERANCE = 0.02
_NEARLY_BEST = 0.9
_ENOUGH = 0.5
_MOST_PER_STEP = 512
_SAME_LAUNCHES = 0.9
_SAME_KERNELS = 0.75


def find_marker(token: Ints, kernels: Ints, contacts: Ints) -> Ints | None:
    """Positions of the launch that recurs once per step; None if there is none.

    Args:
        token: what each launch ran (:class:`kernelscope.steps.contents.Contents`), shape (n,).
        kernels: how many kernels that were, shape (n,).
        contacts: copies and waits made before each launch and in all, shape (n + 1,); if there
            are none, the candidate with the longest run wins instead, if that is most of the work.
    """
    before = np.cumsum(kernels) - kernels
    candidates = _candidates(token)
    knows = bool(contacts[-1] > 0)
    runs = [
        _runs(np.diff(before[at]), np.diff(contacts[at]) > 0 if knows else None)
        for at in candidates
    ]
    held = np.array([held for held, _ in runs], np.int64)
    if held.max(initial=0) <= (0 if knows else _ENOUGH * kernels.sum()):
        return None
    best = np.flatnonzero(held >= (_ENOUGH if knows else _NEARLY_BEST) * held.max())
    size = np.array([size for _, size in runs])[best]
    # What recurs every other step holds as much in larger pieces.
    best = best[size <= size.min() * (1 + _TOLERANCE)]
    regular = [_regular(candidates[number], before, int(size.min())) for number in best]
    # At every batch size rather than at one; in decode steps rather than also elsewhere.
    chosen = max(
        zip(regular, best, strict=True),
        key=lambda one: (one[0].size, -candidates[one[1]].size, -one[0][0]),
    )
    return np.asarray(chosen[0])


def _candidates(token: Ints) -> list[Ints]:
    """The occurrences of each token that occurs often enough and stands for kernels."""
    order = np.argsort(token, kind="stable")
    groups = np.split(order, np.flatnonzero(np.diff(token[order])) + 1)
    return [at for at in groups if at.size >= LEAST_STEPS and token[at[0]] != 0]


def _regular(at: Ints, before: Ints, size: int) -> Ints:
    """The occurrences with a piece of about that many kernels before or behind them."""
    pieces = np.diff(before[at])
    is_step = (pieces >= _SAME_KERNELS * size) & (pieces * _SAME_KERNELS <= size)
    return np.asarray(at[np.append(is_step, False) | np.append(False, is_step)])


def _runs(size: Ints, has_contact: Bools | None) -> tuple[int, int]:
    """Kernels in runs of two or more equal pieces, and in one such piece of the longest run.

    Where contacts are known, the kernels of all runs of pieces that have them; else those of the
    longest run.
    """
    if size.size < LEAST_STEPS - 1:
        return 0, 0
    allowed = np.ones(size.size, bool) if has_contact is None else has_contact
    joined = alike(size[1:], size[:-1]) & allowed[1:] & allowed[:-1]
    run = np.cumsum(np.append(0, ~joined))
    held = np.bincount(run, size * 1.0) * (np.bincount(run) >= LEAST_STEPS - 1)
    best = int(np.argmax(held))
    total = held.max() if has_contact is None else held.sum()
    return int(total), int(np.median(size[run == best]))


def alike(one: Ints, other: Ints) -> Bools:
    """Whether pieces have nearly as many kernels."""
    larger = np.maximum(one, other)
    return np.asarray((np.abs(one - other) <= _TOLERANCE * larger) & (larger > 0))


def once_per_step(at: Ints, kernels: Ints) -> Ints:
    """Of a marker that may occur several times per step, one occurrence per step.

    Args:
        at: positions of its occurrences, ascending.
        kernels: how many kernels each launch ran, shape (n,).
    """
    size = np.diff((np.cumsum(kernels) - kernels)[at])
    held = []
    for times in range(1, min(_MOST_PER_STEP, size.size // (LEAST_STEPS - 1)) + 1):
        recurs = alike(size[times:], size[:-times])
        run = np.asarray(np.cumsum(~recurs), np.int64)[recurs]
        held.append((most_common_count(run) + times) * (run.size > 0))
    if not held or max(held) == 0:
        return at
    times = int(np.argmax(np.array(held) >= _NEARLY_BEST * max(held))) + 1
    if times == 1:
        return at
    # The piece that crosses from one step to the next is the largest of a period.
    begin = int(np.argmax(alike(size[times:], size[:-times])))
    largest = size[begin : begin + times].max()
    behind = 1 + np.flatnonzero(alike(size, np.full_like(size, largest)))
    # No piece leads to the first step of the capture.
    first = behind[:1] - times
    return at[np.append(first[first >= 0], behind)]


def most_common_count(values: Ints) -> int:
    """How often the most common value occurs."""
    return int(np.unique(values, return_counts=True)[1].max(initial=0))


def recurring(first: Ints, last: Ints, token: Ints, kernels: Ints) -> Bools:
    """Which pieces are the recurring step: the most common one, and pieces much like it.

    A piece is like it if it has nine in ten of its launches, or if it recurs itself several times
    in a row: other batch sizes run other kernels. Either way it has about as many kernels.
    """
    sums = np.append(0, np.cumsum(token))
    totals = np.append(0, np.cumsum(kernels))
    content, total = sums[last] - sums[first], totals[last] - totals[first]
    kinds, kind, times = np.unique(content, return_inverse=True, return_counts=True)
    usual = int(np.argmax(times))
    model = int(np.flatnonzero(kind == usual)[0])
    ratio = np.minimum(total, total[model]) / np.maximum(np.maximum(total, total[model]), 1)
    numbers = np.unique(token, return_inverse=True)[1]
    same = np.zeros(kinds.size, bool)
    for number, piece in enumerate(np.unique(kind, return_index=True)[1]):
        shared = _shared(numbers[first[piece] : last[piece]], numbers[first[model] : last[model]])
        same[number] = shared >= _SAME_LAUNCHES or _most_in_a_row(kind == number) >= LEAST_STEPS
    return np.asarray(same[kind] & (ratio >= _SAME_KERNELS))


def _most_in_a_row(flags: Bools) -> int:
    """The length of the longest run of true flags."""
    return int(np.diff(np.flatnonzero(~np.concatenate([[False], flags, [False]]))).max()) - 1


def _shared(one: Ints, other: Ints) -> float:
    """The share of the second piece's launches that the first one has too."""
    length = int(max(one.max(initial=0), other.max(initial=0))) + 1
    common = np.minimum(np.bincount(one, minlength=length), np.bincount(other, minlength=length))
    return float(common.sum() / max(other.size, 1))
