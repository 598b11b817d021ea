"""Kernels put into their steps: the one pass over the kernel table.

Rows keep only what later arithmetic needs, piece by piece as they arrive, so that a trace may
be much larger than what is held of it.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import numpy as np
import numpy.typing as npt
import polars as pl

from kernelscope.numbering import IdNumbers, Numbers
from kernelscope.steps import NO_STEPS, Steps
from kernelscope.steps.windows import NO_LAUNCH_CALL, OUTSIDE, CallIndex
from kernelscope.trace import Trace

REPLAY = -1
"""The name id of a graph replay that was recorded as a whole."""

_LOWEST_STEP = min(OUTSIDE)
# Damage that sets a high bit of a time must become no wall time and overflow no sum: clocks count
# from the boot or from 1970 (2^62 ns is the year 2116), and no kernel of an engine runs for a day.
_LATEST_NS = 1 << 62
_LONGEST_NS = 86_400 * 1_000_000_000
_COLUMNS = ("start_ns", "end_ns", "process", "device", "correlation_id")

Int32s = npt.NDArray[np.int32]


@dataclass(frozen=True, eq=False)
class Placed:
    """Every kernel and opaque replay in its group, a step on one rank.

    Attributes:
        work: one row per kernel or replay, sorted by group and start: ``start_ns``, ``end_ns``
            (int64), ``group`` (int32), ``name`` (int32, an index into ``name_ids``), ``call``
            (int32, row of the launching call in ``Steps.launches``, or -1); ``stream`` (int32)
            if it was asked for.
        groups: one row per group number: ``group`` (int32), ``rank`` (uint16), ``step`` (int32,
            negative outside every step).
        ranks: one row per (process, device) with work, sorted: ``rank`` (uint16), ``process``
            (int64), ``device`` (int32).
        name_ids: the trace's id of each kernel name, shape (names,), int64; :data:`REPLAY` for
            opaque replays.
        calls: one row per (group, launching call): ``group`` (int32), ``is_graph`` (bool).
        impossible: rows left out because their times cannot be: missing, end before start, both
            zero, beyond every clock, or longer than a day.
    """

    work: pl.DataFrame
    groups: pl.DataFrame
    ranks: pl.DataFrame
    name_ids: npt.NDArray[np.int64]
    calls: pl.DataFrame
    impossible: int


def place(trace: Trace, steps: Steps, *, streams: bool = False) -> Placed:
    """Put every kernel and replay of a trace into the step of its launching call.

    Args:
        trace: the capture.
        steps: its steps.
        streams: whether to keep the stream of each.

    Raises:
        ExportError: the file is damaged.
    """
    numbering = _Numbering(Numbers(), IdNumbers())
    finder = StepFinder.of(steps)
    put = partial(_place_piece, finder, numbering)
    columns = [*_COLUMNS, *(["stream"] if streams else [])]
    pieces = trace.map_rows("kernels", [*columns, "name_id"], put)
    recorded = np.unique(np.concatenate([[-1], *(piece.calls["call"] for piece in pieces)]))

    def put_replays(rows: pl.DataFrame) -> _Piece:
        return put(_without_recorded(finder, recorded, rows))

    pieces += trace.map_rows("graph_replays", columns, put_replays)
    return _gather(pieces, finder, numbering, steps.launches["is_graph"].to_numpy())


@dataclass(frozen=True)
class StepFinder:
    """Finds the step of GPU work through the API call that launched it."""

    index: CallIndex
    step_of_call: Int32s
    """Step of each row of ``Steps.launches``, and at the end that of work without a call."""
    width: int
    """How many groups one rank has: its steps and the ways to be outside of them."""

    @classmethod
    def of(cls, steps: Steps) -> StepFinder:
        """A finder for these steps; a trace without steps is one unit, step 0."""
        step_of_call = np.append(steps.launches["step"].to_numpy(), np.int32(NO_LAUNCH_CALL))
        if steps.method == NO_STEPS:
            step_of_call = np.zeros_like(step_of_call)
        width = max(steps.frame.height, 1) - _LOWEST_STEP
        return cls(CallIndex.of(steps.launches), step_of_call, width)

    def calls(self, rows: pl.DataFrame) -> Int32s:
        """Row of the launching call in ``Steps.launches``, or -1; shape (n,)."""
        correlation_id = rows["correlation_id"].fill_null(-1).to_numpy()
        return self.index.rows(rows["process"].to_numpy(), correlation_id)

    def steps(self, rows: pl.DataFrame) -> Int32s:
        """Step of each row, negative outside; shape (n,)."""
        return self.step_of_call[self.calls(rows)]


def possible_rows(rows: pl.DataFrame) -> pl.DataFrame:
    """Rows whose times can be: a few captures hold zero or reversed ones (CUPTI defects)."""
    start_ns, end_ns = pl.col("start_ns"), pl.col("end_ns")
    is_zero = (start_ns == 0) & (end_ns == 0)
    # Differences are taken only of times that a clock can have: others would wrap around.
    is_of_a_clock = (start_ns > -_LATEST_NS) & (end_ns < _LATEST_NS)
    is_short = (end_ns - start_ns).is_between(0, _LONGEST_NS)
    return rows.filter(is_of_a_clock & (end_ns >= start_ns) & is_short & is_zero.not_())


@dataclass(frozen=True)
class _Numbering:
    """Numbers shared by the reading threads, for (process, device) pairs and for names."""

    devices: Numbers[tuple[int, int]]
    names: IdNumbers

    def device_of(self, rows: pl.DataFrame) -> npt.NDArray[np.int32] | int:
        """Number of each row's pair; a plain int where all rows share one, as most do."""
        if rows.is_empty():
            return 0
        process, device = rows["process"].to_numpy(), rows["device"].to_numpy()
        if np.all(process == process[0]) and np.all(device == device[0]):
            return self.devices.of((int(process[0]), int(device[0])))
        number = np.zeros(rows.height, np.int32)
        for pair in rows.select("process", "device").unique(maintain_order=True).rows():
            number[(process == pair[0]) & (device == pair[1])] = self.devices.of(pair)
        return number

    def name_of(self, rows: pl.DataFrame) -> Int32s:
        """Number of each row's name; rows without names are opaque replays."""
        if "name_id" not in rows.columns:
            return np.full(rows.height, self.names.of(np.array([REPLAY]))[0], np.int32)
        return self.names.of(rows["name_id"].fill_null(0).to_numpy())


@dataclass(frozen=True)
class _Piece:
    work: pl.DataFrame
    calls: pl.DataFrame
    impossible: int


def _place_piece(finder: StepFinder, numbering: _Numbering, rows: pl.DataFrame) -> _Piece:
    possible = possible_rows(rows)
    call = finder.calls(possible)
    group = finder.step_of_call[call] - np.int32(_LOWEST_STEP)
    group += np.asarray(numbering.device_of(possible) * finder.width, np.int32)
    # Copied out of the batch that Arrow delivered: it lives as long as any of its columns does.
    work = pl.DataFrame(
        {
            "start_ns": possible["start_ns"].to_numpy(),
            "end_ns": possible["end_ns"].to_numpy(),
            "group": group,
            "name": numbering.name_of(possible),
            "call": call,
        }
    )
    if "stream" in possible.columns:
        work = work.with_columns(possible["stream"].fill_null(0))
    return _Piece(work, _distinct_calls(group, call), rows.height - possible.height)


def _without_recorded(finder: StepFinder, recorded: Int32s, rows: pl.DataFrame) -> pl.DataFrame:
    """Replays without those of calls whose kernels were recorded: their time is counted there."""
    call = finder.calls(rows)
    return rows.filter(~(np.isin(call, recorded) & (call >= 0)))


def _distinct_calls(group: Int32s, call: Int32s) -> pl.DataFrame:
    """(group, call) pairs. The kernels of a replay lie side by side: drop most repeats first."""
    changes = np.ones(call.size, bool)
    np.logical_or(call[1:] != call[:-1], group[1:] != group[:-1], out=changes[1:])
    changes &= call >= 0
    return pl.DataFrame({"group": group[changes], "call": call[changes]}).unique()


def _gather(
    pieces: list[_Piece],
    finder: StepFinder,
    numbering: _Numbering,
    is_graph: npt.NDArray[np.bool_],
) -> Placed:
    found_work = [piece.work for piece in pieces] or [_no_work()]
    work = pl.concat(found_work, rechunk=True)
    calls = pl.concat([_no_calls(), *(piece.calls for piece in pieces)]).unique()
    found = numbering.devices.number
    pairs = sorted(found)
    return Placed(
        work=_in_launch_order(work),
        groups=_groups([pairs.index(pair) for pair in found], finder.width),
        ranks=pl.DataFrame(
            pairs, schema={"process": pl.Int64, "device": pl.Int32}, orient="row"
        ).select(pl.int_range(pl.len(), dtype=pl.UInt16).alias("rank"), pl.all()),
        name_ids=numbering.names.ids(),
        calls=calls.select(
            "group", pl.Series("is_graph", is_graph[calls["call"].to_numpy()], pl.Boolean)
        ),
        impossible=sum(piece.impossible for piece in pieces),
    )


def _in_launch_order(work: pl.DataFrame) -> pl.DataFrame:
    """Sorted by group and start; a file in order of start mostly is already.

    Work that starts at one moment is put in the order of its calls, so that the order of rows in
    the file decides nothing.
    """
    group, start_ns = work["group"].to_numpy(), work["start_ns"].to_numpy()
    same_group = group[1:] == group[:-1]
    if not ((group[1:] > group[:-1]) | (same_group & (start_ns[1:] >= start_ns[:-1]))).all():
        return work.sort("group", "start_ns", "call", "end_ns")
    ties = np.flatnonzero(same_group & (start_ns[1:] == start_ns[:-1]))
    if not ties.size:
        return work
    tied = np.union1d(ties, ties + 1)
    keys = [work[name].to_numpy()[tied] for name in ("end_ns", "call", "start_ns", "group")]
    order = np.arange(work.height)
    order[tied] = tied[np.lexsort(keys)]
    return work if np.array_equal(order[tied], tied) else work[order]


def _groups(rank_of_number: list[int], width: int) -> pl.DataFrame:
    """What each group number stands for."""
    number = np.arange(len(rank_of_number) * width, dtype=np.int32)
    rank = np.array(rank_of_number, np.uint16)
    return pl.DataFrame(
        {
            "group": number,
            "rank": rank[number // width],
            "step": number % width + np.int32(_LOWEST_STEP),
        }
    )


def _no_work() -> pl.DataFrame:
    return pl.DataFrame(
        schema={
            "start_ns": pl.Int64,
            "end_ns": pl.Int64,
            "group": pl.Int32,
            "name": pl.Int32,
            "call": pl.Int32,
        }
    )


def _no_calls() -> pl.DataFrame:
    return pl.DataFrame(schema={"group": pl.Int32, "call": pl.Int32})
