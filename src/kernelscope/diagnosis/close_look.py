"""Findings that need a look at every kernel, and that a summary can do without."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt
import polars as pl

from kernelscope.analysis import Analysis
from kernelscope.findings import Finding
from kernelscope.trace import TraceInfo

_MOST_NAMED = 3


def look_closely(info: TraceInfo, analysis: Analysis) -> Iterator[Finding]:
    """Odd times, rows that are there twice, and names that are cut or missing."""
    yield from _duplicates(analysis)
    yield from _early_starts(analysis)
    yield from _beyond_the_window(info, analysis)
    yield from _nameless(analysis.names)
    yield from _truncated(analysis.names)


def _duplicates(analysis: Analysis) -> Iterator[Finding]:
    """Rows that agree in name, times and launching call: one kernel, written twice.

    ``nsys export --append`` into a file that holds the capture already makes them.
    """
    work = analysis.placed.work
    columns = [work[name].to_numpy() for name in ("group", "start_ns", "end_ns", "name", "call")]
    same = np.logical_and.reduce([column[1:] == column[:-1] for column in columns])
    count = int(np.count_nonzero(same))
    if count:
        message = (
            f"{count:,} of {work.height:,} kernels are there twice: same name, times and call."
        )
        action = "Export the report again, without --append and into a new file."
        yield Finding("integrity", "problem", message, action)


def _early_starts(analysis: Analysis) -> Iterator[Finding]:
    """Kernels that begin before the call that launches them: the two clocks disagree."""
    work, launches = analysis.placed.work, analysis.steps.launches
    call = work["call"].to_numpy()
    has_call = call >= 0
    ahead_ns = _starts(launches)[call[has_call]] - work["start_ns"].to_numpy()[has_call]
    early = ahead_ns > 0
    if early.any():
        message = (
            f"{int(early.sum()):,} of {work.height:,} kernels start before their launching call, "
            f"by {ahead_ns.max() / 1e3:,.1f} µs at most: the clocks of CPU and GPU disagree."
        )
        evidence = "their launch delay counts as 0; steps go by the call"
        yield Finding("times", "warning", message, evidence=evidence)


def _starts(launches: pl.DataFrame) -> npt.NDArray[np.int64]:
    return launches["start_ns"].to_numpy()


def _beyond_the_window(info: TraceInfo, analysis: Analysis) -> Iterator[Finding]:
    work = analysis.placed.work
    negative = int((work["start_ns"] < 0).sum())
    late = 0 if info.window_end_ns is None else int((work["start_ns"] > info.window_end_ns).sum())
    for count, where in ((negative, "before time 0"), (late, "after the end of the capture")):
        if count:
            message = f"{count:,} of {work.height:,} kernels start {where}."
            yield Finding("times", "warning", message)


def _nameless(names: pl.DataFrame) -> Iterator[Finding]:
    missing = names.filter(pl.col("name").str.contains(r"^#-?\d+$"))
    if missing.height:
        message = (
            f"{missing.height:,} of {names.height:,} kernel names lead nowhere "
            f"({', '.join(missing['name'].head(_MOST_NAMED))}): what these kernels are is unknown."
        )
        action = "Export the report again without --tables: nsys export --type sqlite."
        yield Finding("names", "problem", message, action)


def _truncated(names: pl.DataFrame) -> Iterator[Finding]:
    """A demangled name closes every parenthesis that it opens, unless it was cut."""
    name = pl.col("name")
    opened, closed = (name.str.count_matches(sign, literal=True) for sign in ("(", ")"))
    cut = names.filter((opened > closed) | name.str.ends_with("..."))
    if cut.height:
        shown = ", ".join(cut["short_name"].head(_MOST_NAMED))
        message = f"{cut.height:,} of {names.height:,} kernel names are cut off: {shown}."
        evidence = "they are classified by what is left of them"
        yield Finding("names", "warning", message, evidence=evidence)
