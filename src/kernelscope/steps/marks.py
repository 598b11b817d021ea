"""Which part of a run was meant to be looked at, where the run says so without labels.

A capture of a whole run holds its start-up: memory profiling, kernel tuning, warm-up batches
and the capture of CUDA graphs. Two things tell it apart. An application that opens a profiler
range calls ``cudaProfilerStart``, and the call is recorded although nsys did not wait for it.
And an engine captures its graphs before it serves: what was launched before the last graph was
instantiated is start-up.
"""

from __future__ import annotations

import numpy as np
import polars as pl

from kernelscope.api_names import GRAPH_INSTANTIATE, PROFILER_START, PROFILER_STOP, as_regex
from kernelscope.steps.windows import BEFORE_FIRST_STEP, IN_NO_STEP, START_UP
from kernelscope.trace import Trace

_BEGINNING = np.iinfo(np.int64).min
# Graphs may also be captured while serving, at the first batch of a new size.
_LEAST_AFTER = 0.5


def find_marks(trace: Trace, calls: pl.DataFrame) -> pl.DataFrame:
    """Where the profiled part of each process begins and ends.

    Args:
        trace: the capture.
        calls: its API calls (:func:`kernelscope.steps.windows.read_calls`).

    Returns:
        ``process``, ``start_ns`` and ``is_profiled`` (bool), sorted; a process that does not
        say has no row and is looked at as a whole, and so is one whose marks leave no launch.
    """
    names = trace.names(calls["name_id"])

    def named(pattern: str) -> pl.DataFrame:
        ids = names.filter(pl.col("name").str.contains(as_regex(pattern)))["id"]
        mine = calls.filter(pl.col("name_id").is_in(ids.implode()).fill_null(value=False))
        return mine.select("process", "start_ns")

    marks = pl.concat(
        [
            named(PROFILER_START).with_columns(is_profiled=pl.lit(value=True)),
            named(PROFILER_STOP).with_columns(is_profiled=pl.lit(value=False)),
        ]
    ).sort("process", "start_ns", maintain_order=True)
    captured = named(GRAPH_INSTANTIATE).join(marks, on="process", how="anti")
    marks = pl.concat([marks, _after_capture(calls, captured)])
    return _useful(calls, pl.concat([_before(marks), marks]).sort("process", "start_ns"))


def is_profiled(rows: pl.DataFrame, marks: pl.DataFrame) -> pl.Series:
    """Whether each row (``process``, ``start_ns``) is from the profiled part; bool."""
    flags = np.ones(rows.height, bool)
    process, start = rows["process"].to_numpy(), rows["start_ns"].to_numpy()
    for (key,), mine in marks.group_by(["process"]):
        at = np.searchsorted(mine["start_ns"].to_numpy(), start, side="right") - 1
        states = np.append(mine["is_profiled"].to_numpy(), True)
        flags = np.where(process == key, states[at], flags)
    return pl.Series(flags, dtype=pl.Boolean)


def bounds_outside(marks: pl.DataFrame, process: int, thread: int) -> pl.DataFrame:
    """The marks of a process as bounds of one of its threads: ``thread``, ``start_ns``, ``step``.

    See :func:`kernelscope.steps.windows.assign_calls`.
    """
    mine = marks.filter(pl.col("process") == process)
    inside = pl.when(pl.col("is_profiled").cum_sum() <= 1).then(BEFORE_FIRST_STEP)
    return mine.select(
        thread=pl.lit(thread, pl.Int64),
        start_ns=pl.col("start_ns"),
        step=pl.when(pl.col("is_profiled"))
        .then(inside.otherwise(IN_NO_STEP))
        .otherwise(START_UP)
        .cast(pl.Int32),
    )


def _after_capture(calls: pl.DataFrame, captured: pl.DataFrame) -> pl.DataFrame:
    """A mark at the last instantiation of a graph, where most graph launches come after it."""
    last = captured.group_by("process").agg(pl.col("start_ns").max().alias("last_ns"))
    share = (
        calls.filter("is_graph")
        .join(last, on="process")
        .group_by("process")
        .agg(after=(pl.col("start_ns") > pl.col("last_ns")).mean(), start_ns=pl.first("last_ns"))
    )
    return share.filter(pl.col("after") >= _LEAST_AFTER).select(
        "process", "start_ns", is_profiled=pl.lit(value=True)
    )


def _before(marks: pl.DataFrame) -> pl.DataFrame:
    """What was before the first mark is the opposite of what it begins."""
    first = marks.group_by("process", maintain_order=True).first().filter("is_profiled")
    return first.select("process", pl.lit(_BEGINNING).alias("start_ns"), ~pl.col("is_profiled"))


def _useful(calls: pl.DataFrame, marks: pl.DataFrame) -> pl.DataFrame:
    """The marks of the processes of which they leave something."""
    launches = calls.filter("is_launch").select("process", "start_ns")
    left = launches.filter(is_profiled(launches, marks))["process"].unique()
    return marks.filter(pl.col("process").is_in(left.implode()))
