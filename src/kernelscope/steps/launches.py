"""The launch calls of each thread in order of time, from the profiled part of the run."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import polars as pl

from kernelscope.steps.marks import find_marks, is_profiled
from kernelscope.steps.windows import read_calls
from kernelscope.trace import Trace

Ints = npt.NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Thread:
    """The launch calls of one thread, in order of time.

    Attributes:
        process: the process's key.
        thread: the thread's key.
        rows: row of each launch in ``Launches.calls``, shape (n,).
        start_ns: when each launch call began, shape (n,).
        end_ns: when it returned, shape (n,).
        all_start_ns: when each call of the thread began, also those that launch nothing;
            ascending.
    """

    process: int
    thread: int
    rows: Ints
    start_ns: Ints
    end_ns: Ints
    all_start_ns: Ints

    @property
    def pause_ns(self) -> Ints:
        """Time without a launch call before each launch, and 0 at both ends; shape (n + 1,)."""
        pause = np.zeros(self.rows.size + 1, np.int64)
        pause[1:-1] = self.start_ns[1:] - self.end_ns[:-1]
        return pause

    def bound(self, position: int) -> int:
        """When that begins which begins with that launch.

        After the longest pause of the thread since the launch before it, so that copies and
        waits go with the launches that they stand beside.
        """
        at = int(self.start_ns[position])
        if position == 0:
            return at
        first = np.searchsorted(self.all_start_ns, self.start_ns[position - 1], side="left")
        between = self.all_start_ns[first : np.searchsorted(self.all_start_ns, at, side="right")]
        return int(between[1 + np.argmax(np.diff(between))]) if between.size > 1 else at


@dataclass(frozen=True, eq=False)
class Launches:
    """The API calls of a capture, ready for methods that go by launch order.

    Attributes:
        calls: every call (:func:`kernelscope.steps.windows.read_calls`), with ``end_ns``.
        marks: where the profiled part of the run begins and ends
            (:func:`kernelscope.steps.marks.find_marks`).
        threads: the launch calls of each thread within that part, in order of thread.
    """

    calls: pl.DataFrame
    marks: pl.DataFrame
    threads: tuple[Thread, ...]

    @classmethod
    def of(cls, trace: Trace) -> Launches:
        """The launches of a trace.

        Raises:
            ExportError: the file is damaged.
        """
        calls = read_calls(trace, "end_ns")
        marks = find_marks(trace, calls)
        return cls(calls, marks, tuple(_threads(calls, marks)))


def _threads(calls: pl.DataFrame, marks: pl.DataFrame) -> Iterator[Thread]:
    columns = calls.with_row_index("row").select(
        pl.col("row").cast(pl.Int64),
        "process",
        "thread",
        "start_ns",
        pl.col("end_ns").fill_null(pl.col("start_ns")),
        "is_launch",
    )
    ordered = columns.sort("thread", "start_ns", maintain_order=True)
    for (process, thread), mine in ordered.group_by("process", "thread", maintain_order=True):
        launches = mine.filter("is_launch")
        launches = launches.filter(is_profiled(launches, marks))
        if launches.is_empty():
            continue
        row, start, end = (launches[name].to_numpy() for name in ("row", "start_ns", "end_ns"))
        yield Thread(_key(process), _key(thread), row, start, end, mine["start_ns"].to_numpy())


def _key(value: object) -> int:
    assert isinstance(value, int)  # noqa: S101 - polars types the keys of groups as objects
    return value
