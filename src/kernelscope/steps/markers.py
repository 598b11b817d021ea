"""Steps by a kernel that every step launches equally often."""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import polars as pl

from kernelscope.errors import StepError
from kernelscope.steps.contacts import contacts_before, read_contacts
from kernelscope.steps.contents import Contents, read_contents
from kernelscope.steps.cutting import cut_around
from kernelscope.steps.found import MARKER_KERNEL, Declined, Steps
from kernelscope.steps.inferred import Pieces, count, steps_of
from kernelscope.steps.launches import Launches, Thread
from kernelscope.steps.recurrence import LEAST_STEPS, find_marker, once_per_step, recurring
from kernelscope.steps.windows import CallIndex
from kernelscope.trace import Trace

Ints = npt.NDArray[np.int64]

_NO_FOREIGN = np.zeros(0, np.int64)
_LONGEST_NAME = 60


@dataclass(frozen=True, eq=False)
class _Found:
    """The steps of one thread, and row of the call that launched the first marker."""

    pieces: Pieces
    call: int


def by_marker(trace: Trace, pattern: str | None = None) -> Steps | Declined:
    """Find steps by a kernel that occurs a fixed number of times in each.

    Args:
        trace: the capture.
        pattern: which kernel, as a regular expression that is searched for in full names; by
            default the kernel, or graph, that divides the launches into most nearly equal pieces.

    Raises:
        ExportError: the file is damaged.
        StepError: ``pattern`` is no regular expression.
    """
    launches = Launches.of(trace)
    if not launches.threads:
        return Declined(MARKER_KERNEL, "no launching API call was recorded")
    index = CallIndex.of(launches.calls)
    contents = read_contents(trace, index, launches.calls.height, _compiled(pattern))
    contacts = None if pattern is not None else read_contacts(trace, launches, index)
    found = [f for thread in launches.threads if (f := _find(thread, contents, contacts))]
    if not found:
        return Declined(MARKER_KERNEL, _reason(pattern, int(contents.is_marked.sum())))
    evidence = _evidence(trace, contents, found)
    return steps_of(launches, [one.pieces for one in found], MARKER_KERNEL, evidence)


def _compiled(pattern: str | None) -> re.Pattern[str] | None:
    try:
        return None if pattern is None else re.compile(pattern)
    except re.error as error:
        raise StepError(
            f"The marker {pattern!r} is no regular expression: {error}.",
            hint="Escape characters such as ( and * that stand for themselves.",
        ) from error


def _reason(pattern: str | None, marked: int) -> str:
    if pattern is None:
        return f"no kernel divides the launches into {LEAST_STEPS} or more nearly equal steps"
    if not marked:
        return f"no kernel's name matches {pattern!r}"
    return f"{marked} launches match {pattern!r}, but the work between them does not recur"


def _find(thread: Thread, contents: Contents, contacts: pl.DataFrame | None) -> _Found | None:
    """The steps of one thread by its marker, the named one if contacts are None; or None."""
    token, weight = contents.token[thread.rows], contents.weight[thread.rows]
    at: Ints | None
    if contacts is None:
        at = once_per_step(np.flatnonzero(contents.is_marked[thread.rows]), weight)
    else:
        at = find_marker(token, weight, contacts_before(thread, contacts))
    if at is None or at.size < LEAST_STEPS:
        return None
    cut = cut_around(at, thread.pause_ns, _NO_FOREIGN)
    if cut is None:
        return None
    first, last = cut
    keep = recurring(first, last, token, weight)
    if keep.sum() < LEAST_STEPS:
        return None
    labels = [f"marker {number}" for number in range(1, int(keep.sum()) + 1)]
    return _Found(Pieces(thread, first[keep], last[keep], labels), int(thread.rows[at[0]]))


def _evidence(trace: Trace, contents: Contents, found: list[_Found]) -> str:
    """How many steps, of how many kernels, and around what."""
    calls = [one.call for one in found]
    ids = pl.Series(contents.name_id[calls], dtype=pl.Int64)
    names = " and ".join(sorted({_short(name) for name in trace.names(ids)["name"]}))
    whole = contents.weight[calls].max() > 1
    steps = sum(one.pieces.first.size for one in found)
    kernels = int(np.median(np.concatenate([_kernels(contents, one.pieces) for one in found])))
    return (
        f"{count(steps, 'step')} of {kernels:,} kernels (median), each around"
        f" {'a CUDA graph with ' if whole else ''}{names}, on {count(len(found), 'thread')}"
    )


def _kernels(contents: Contents, pieces: Pieces) -> Ints:
    """Kernels of each step."""
    totals = np.append(0, np.cumsum(contents.kernels[pieces.thread.rows]))
    return np.asarray(totals[pieces.last] - totals[pieces.first])


def _short(name: str) -> str:
    return name if len(name) <= _LONGEST_NAME else name[: _LONGEST_NAME - 1] + "…"
