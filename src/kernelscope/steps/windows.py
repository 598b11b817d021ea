"""Which step each API call belongs to, by when and on which thread it was made.

A step's window runs from its start to the start of the next one on the same thread, or to where
its method says that it ends. A label's range itself is too short a window: vLLM launches
lm_head, sampling and input preparation after the range has closed. And GPU time would be the
wrong clock: with asynchronous scheduling most kernels run while a later step's range is open.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import polars as pl

from kernelscope import frames
from kernelscope.api_names import GRAPH_LAUNCH, LAUNCH, as_regex
from kernelscope.intervals import run_starts
from kernelscope.trace import Trace

BEFORE_FIRST_STEP = -1
OTHER_THREAD = -2
NO_LAUNCH_CALL = -3
IN_NO_STEP = -4
START_UP = -5
OUTSIDE = {
    BEFORE_FIRST_STEP: "launched before the first step",
    OTHER_THREAD: "launched by a thread without steps",
    NO_LAUNCH_CALL: "without a launching call in the capture",
    IN_NO_STEP: "launched in no recurring step",
    START_UP: "launched outside the profiled part of the run (start-up, warm-up, graph capture)",
}
"""Why a kernel is in no step."""

_DENSE_FACTOR = 8
_DENSE_MINIMUM = 1 << 20

Ints = npt.NDArray[np.int64]
Int32s = npt.NDArray[np.int32]


def read_calls(trace: Trace, *more: str) -> pl.DataFrame:
    """The API calls that can have GPU work, unique and sorted by (process, correlation id).

    Args:
        trace: the capture.
        more: further columns of :data:`kernelscope.frames.API_CALLS` to read.

    Returns:
        ``process``, ``thread``, ``correlation_id``, ``start_ns``, ``name_id``, ``is_launch``,
        ``is_graph`` and the further columns.
    """
    columns = ["start_ns", "thread", "correlation_id", "name_id", *more]
    calls = trace.read("api_calls", columns).drop_nulls(["correlation_id", "start_ns"])
    names = trace.names(calls["name_id"])
    is_launch = names.filter(pl.col("name").str.contains(as_regex(LAUNCH)))["id"]
    is_graph = names.filter(pl.col("name").str.contains(as_regex(GRAPH_LAUNCH)))["id"]
    return _one_per_id(
        calls.with_columns(
            process=pl.col("thread") & ~0xFFFFFF,
            is_launch=pl.col("name_id").is_in(is_launch.implode()).fill_null(value=False),
            is_graph=pl.col("name_id").is_in(is_graph.implode()).fill_null(value=False),
        )
    )


def assign_calls(calls: pl.DataFrame, bounds: pl.DataFrame) -> pl.DataFrame:
    """Every API call with its step (:data:`kernelscope.frames.LAUNCHES`).

    Args:
        calls: API calls (:func:`read_calls`).
        bounds: where on a thread what begins: ``thread``, ``start_ns`` and ``step``, a step's
            number or the reason why calls from here on are in none; sorted by thread and time.
    """
    return calls.with_columns(pl.Series("step", _step_of(calls, bounds))).select(
        pl.col(name).cast(dtype) for name, dtype in frames.LAUNCHES.items()
    )


def _one_per_id(calls: pl.DataFrame) -> pl.DataFrame:
    """Sorted by (process, correlation id); of several calls a launch, else the earliest."""
    process, ids = calls["process"].to_numpy(), calls["correlation_id"].to_numpy()
    if np.all(process[1:] == process[:-1]) and np.all(ids[1:] > ids[:-1]):
        return calls
    return calls.sort("process", "correlation_id", pl.col("is_launch").not_(), "start_ns").unique(
        ["process", "correlation_id"], keep="first", maintain_order=True
    )


def _step_of(calls: pl.DataFrame, bounds: pl.DataFrame) -> Int32s:
    """Step number of each call: that of the last bound on its thread before it."""
    step = np.full(calls.height, OTHER_THREAD, np.int32)
    thread, start = calls["thread"].to_numpy(), calls["start_ns"].to_numpy()
    for (bound_thread,), mine in bounds.group_by(["thread"], maintain_order=True):
        rows = np.flatnonzero(thread == bound_thread)
        window = np.searchsorted(mine["start_ns"].to_numpy(), start[rows], side="right") - 1
        numbers = mine["step"].to_numpy()
        step[rows] = np.where(window < 0, BEFORE_FIRST_STEP, numbers[window])
    return step


@dataclass(frozen=True)
class CallIndex:
    """Finds the row of the launching call for kernels, by (process, correlation id)."""

    tables: dict[int, _Table]

    @classmethod
    def of(cls, launches: pl.DataFrame) -> CallIndex:
        """Index calls (:data:`kernelscope.frames.LAUNCHES`)."""
        process = launches["process"].to_numpy()
        ids = launches["correlation_id"].to_numpy()
        first = run_starts(process)
        last = np.append(first[1:], process.size)[: first.size]
        return cls(
            {
                int(process[begin]): _Table.of(ids[begin:end], int(begin))
                for begin, end in zip(first, last, strict=True)
            }
        )

    def rows(self, process: Ints, correlation_id: Ints) -> npt.NDArray[np.int32]:
        """Row of each kernel's call, or -1; shape (n,), int32."""
        found = np.full(process.size, -1, np.int32)
        if process.size == 0:
            return found
        if process[0] == process[-1] and np.all(process == process[0]):
            table = self.tables.get(int(process[0]))
            return found if table is None else table.rows(correlation_id)
        for key, table in self.tables.items():
            mine = np.flatnonzero(process == key)
            found[mine] = table.rows(correlation_id[mine])
        return found


@dataclass(frozen=True)
class _Table:
    """Correlation ids of one process.

    CUPTI counts them up, so a plain array usually serves; ids scattered too widely for one are
    looked up by bisection.
    """

    ids: Ints
    first_row: int
    dense: npt.NDArray[np.int32] | None

    @classmethod
    def of(cls, ids: Ints, first_row: int) -> _Table:
        lowest, highest = int(ids[0]), int(ids[-1])
        dense = None
        if highest - lowest < max(_DENSE_FACTOR * ids.size, _DENSE_MINIMUM):
            dense = np.full(highest - lowest + 1, -1, np.int32)
            dense[ids - lowest] = np.arange(first_row, first_row + ids.size, dtype=np.int32)
        return cls(ids, first_row, dense)

    def rows(self, wanted: Ints) -> npt.NDArray[np.int32]:
        if self.dense is not None:
            inside = (wanted >= self.ids[0]) & (wanted <= self.ids[-1])
            at = np.where(inside, wanted - self.ids[0], 0)
            return np.where(inside, self.dense[at], np.int32(-1))
        at = np.minimum(np.searchsorted(self.ids, wanted), self.ids.size - 1)
        rows = np.where(self.ids[at] == wanted, self.first_row + at, -1)
        return np.asarray(rows, np.int32)
