"""Layers found by their cores: the attention or recurrence that each has once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from kernelscope.layers.line import (
    ACTIVATION,
    BREAKS,
    CORES,
    EXPERTS,
    NORM,
    NORMS,
    PLAIN_NORMS,
    SPLIT_K,
    Line,
)
from kernelscope.layers.model import Ints

_SEPARATORS = (*PLAIN_NORMS, ACTIVATION, *EXPERTS, "moe")
_FEWEST = 2


@dataclass(frozen=True)
class Core:
    """The kernels [begin, end) that mix tokens in one layer, with what stands among them."""

    begin: int
    end: int


@dataclass(frozen=True)
class Seam:
    """Where two layers meet.

    ``close`` is the position behind the last kernel that surely belongs to the former;
    ``open`` that of the first multiply of the latter. What stands between is norms, residual
    sums and casts, which belong to either.
    """

    close: int
    open: int


def cut_by_cores(line: Line) -> Ints | None:
    """Boundaries of the layers, shape (layers + 1,), or None where fewer than two are found.

    A layer begins at the norm before the first multiply that feeds its core. The first layer
    shows how much of what stands between two layers that is: nothing else precedes its norm
    but the input, so whatever it has in common with later ones opens a layer.
    """
    begin, end, cores = _longest_segment(line)
    if len(cores) < _FEWEST:
        return None
    seams = [_seam(line, former.end, latter.begin) for former, latter in pairwise(cores)]
    first = _first_multiply(line, begin, cores, seams)
    between = _usual([line.categories[seam.close : seam.open] for seam in seams])
    opening = _opening(between, line.categories[begin:first])
    starts = [max(seam.open - opening, seam.close) for seam in seams]
    first -= _common(between[::-1][:opening], line.categories[begin:first][::-1])
    last = _last_close(line, cores[-1].end, end)
    last += _common(between[: len(between) - opening], line.categories[last:end])
    return np.array([first, *starts, last], np.int64)


def _longest_segment(line: Line) -> tuple[int, int, list[Core]]:
    """The stretch between sampling or embedding kernels with the most cores.

    A draft model, or the encoder of images in front of a language model, has layers of its own.
    """
    edges = [0, *(int(at) for at in line.where(BREAKS)), len(line.categories)]
    segments = [
        (begin, end, list(_cores(line, begin, end)))
        for begin, end in pairwise(edges)
        if end > begin
    ]
    return max(segments, key=lambda segment: len(segment[2]), default=(0, 0, []))


def _cores(line: Line, begin: int, end: int) -> Iterator[Core]:
    """The cores of [begin, end): runs of core kernels that no other layer's work interrupts.

    Work before the first multiply has no projection: it prepares the step.
    """
    multiplies = line.multiplies_in(begin, end)
    at = line.where(CORES, int(multiplies[0]) if multiplies.size else end, end)
    run: list[int] = []
    for position in at.tolist():
        if run and _is_interrupted(line, run[-1], position):
            yield Core(run[0], run[-1] + 1)
            run = []
        run.append(position)
    if run:
        yield Core(run[0], run[-1] + 1)


def _is_interrupted(line: Line, former: int, latter: int) -> bool:
    if latter - former == 1 or not line.multiplies_in(former, latter).size:
        return False
    return line.has(_SEPARATORS, former + 1, latter)


def _seam(line: Line, begin: int, end: int) -> Seam:
    """Where the layer whose core ends before ``begin`` meets the one whose core is at ``end``."""
    multiplies = line.multiplies_in(begin, end)
    close = _feed_forward_end(line, multiplies, begin, end)
    if close is None:
        return _seam_without_feed_forward(line, multiplies, begin, end)
    behind = multiplies[multiplies >= close].tolist()
    norms = _norms(line, close, end)
    for former, latter in pairwise([close, *behind]):
        if line.has(norms, former, latter):
            return Seam(_behind_multiply(line, former, close), latter)
    return Seam(_behind_multiply(line, close, close), behind[0] if behind else end)


def _feed_forward_end(line: Line, multiplies: Ints, begin: int, end: int) -> int | None:
    """The position behind the feed-forward block's last sure kernel; None if none is seen.

    The activation of a feed-forward block stands between two multiplies; one before the output
    projection is a gate of the attention, one behind the last multiply belongs to the next core.
    """
    if not multiplies.size:
        return None
    experts = line.where(EXPERTS, begin, end)
    activations = line.where([ACTIVATION], int(multiplies[0]), int(multiplies[-1]))
    last_expert, last = int(experts.max(initial=-1)), int(activations.max(initial=-1))
    if last < 0 and last_expert < 0:
        return None
    if last_expert > last:
        return last_expert + 1
    down = int(multiplies[np.searchsorted(multiplies, last)])
    # The gate of shared experts is an activation with the next layer's norm behind it.
    return last + 1 if line.has(NORMS, last, down) else down + 1


def _seam_without_feed_forward(line: Line, multiplies: Ints, begin: int, end: int) -> Seam:
    """Without an activation of its own: the last norm between two multiplies opens the layer."""
    norms = _norms(line, begin, end)
    at = multiplies.tolist()
    for former, latter in reversed(list(pairwise(at))):
        if line.has(norms, former, latter):
            return Seam(_behind_split_k(line, former + 1), latter)
    close = _behind_split_k(line, at[0] + 1) if at else begin
    return Seam(close, at[1] if len(at) > 1 else end)


def _norms(line: Line, begin: int, end: int) -> tuple[str, ...]:
    return NORMS if line.has(NORMS, begin, end) else PLAIN_NORMS


def _behind_multiply(line: Line, former: int, close: int) -> int:
    """The position behind a multiply at ``former``, or ``close`` if that is where we are."""
    return _behind_split_k(line, close if former == close else former + 1)


def _behind_split_k(line: Line, at: int) -> int:
    while at < len(line.categories) and line.categories[at] == SPLIT_K:
        at += 1
    return at


def _first_multiply(line: Line, begin: int, cores: Sequence[Core], seams: Sequence[Seam]) -> int:
    """The first multiply of the first layer: as many before its core as later layers have."""
    latter = cores[1:]
    kind = line.categories[cores[0].begin]
    counts = [
        (line.categories[core.begin], line.multiplies_in(seam.open, core.begin).size)
        for core, seam in zip(latter, seams, strict=True)
    ]
    alike = [count for core, count in counts if core == kind] or [count for _, count in counts]
    there = line.multiplies_in(begin, cores[0].begin)
    wanted = min(Counter(alike).most_common(1)[0][0], there.size)
    return int(there[-wanted]) if wanted else cores[0].begin


def _last_close(line: Line, begin: int, end: int) -> int:
    """Where the last layer closes; behind it stand the final norm and lm_head, or nothing."""
    multiplies = line.multiplies_in(begin, end)
    if multiplies.size == 1 and _feed_forward_end(line, multiplies, begin, end) is None:
        return _behind_split_k(line, int(multiplies[0]) + 1)
    return _seam(line, begin, end).close


def _opening(between: Sequence[str], before_first: Sequence[str]) -> int:
    """How many of the kernels between two layers belong to the latter."""
    shared = _common(between[::-1], before_first[::-1])
    has_norm = NORM in between
    from_norm = between[::-1].index(NORM) + 1 if has_norm else 0
    return max(shared, from_norm)


def _common(one: Sequence[str], other: Sequence[str]) -> int:
    """Length of the common beginning."""
    count = 0
    for mine, theirs in zip(one, other, strict=False):
        if mine != theirs:
            break
        count += 1
    return count


def _usual(rows: Sequence[tuple[str, ...]]) -> tuple[str, ...]:
    """The most common row; of several the one met first."""
    return Counter(rows).most_common(1)[0][0]
