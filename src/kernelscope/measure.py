"""Kernels put into their steps, and what each step then amounts to.

The one pass over the kernel table is here. Kernels keep only what later arithmetic needs, piece
by piece as they arrive, and everything per step is computed on the columns at once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
import polars as pl

from kernelscope.intervals import union_ns
from kernelscope.steps import NO_STEPS, Steps
from kernelscope.steps.windows import NO_LAUNCH_CALL, CallIndex
from kernelscope.trace import Trace

REPLAY = -1
"""``name_id`` of a graph replay that was recorded as a whole."""

_COLUMNS = ("start_ns", "end_ns", "process", "device", "correlation_id")
_KEYS = ("rank", "step")


@dataclass(frozen=True, eq=False)
class Measured:
    """What the GPU did, per step and kernel name.

    Attributes:
        ranks: one row per (process, device) with work, in order: ``rank`` (uint16),
            ``process`` (int64), ``device`` (int32), ``kernels``, ``kernel_ns`` (int64).
        by_name: one row per (rank, step, name_id): ``kernels`` (count), ``kernel_ns`` (sum of
            durations), ``longest_ns``. ``name_id`` is :data:`REPLAY` for opaque graph replays.
            ``step`` is negative outside every step.
        by_step: one row per (rank, step): ``kernels``, ``replays``, ``kernel_ns``, ``busy_ns``
            (union of the intervals), ``first_ns`` and ``last_ns`` (first start, last end),
            ``launch_calls`` (calls with work on the GPU), ``graph_launches`` (those among them
            that launch a graph) and ``launch_calls_made`` (kernel and graph launches seen on
            the CPU, with or without work on the GPU).
        memory: one row per (step, kind): ``kind`` ("copy" or "set"), ``operations``,
            ``memory_ns``, ``bytes``.
        impossible: kernels left out because their times cannot be (end before start, or both
            zero, or missing).
    """

    ranks: pl.DataFrame
    by_name: pl.DataFrame
    by_step: pl.DataFrame
    memory: pl.DataFrame
    impossible: int


def measure(trace: Trace, steps: Steps) -> Measured:
    """Put every kernel, replay, copy and set of a trace into its step and add up.

    Raises:
        ExportError: the file is damaged.
    """
    index = CallIndex.of(steps.launches)
    pieces = trace.map_rows("kernels", [*_COLUMNS, "name_id"], partial(_place, index))
    pieces += trace.map_rows("graph_replays", _COLUMNS, partial(_place, index))
    ranks, work = _gather(pieces)
    work = work.with_columns(_step_of_call(work["call"], steps))
    by_name = _by_name(work)
    return Measured(
        ranks=_describe_ranks(ranks, by_name),
        by_name=by_name,
        by_step=_by_step(work, by_name, steps.launches),
        memory=_memory(trace, steps, index),
        impossible=sum(piece.impossible for piece in pieces),
    )


@dataclass(frozen=True)
class _Piece:
    """Part of the work: ``start_ns``, ``end_ns``, ``call`` (row of the launching call),
    ``name_id``, and ``rank`` as an index into ``devices``."""

    work: pl.DataFrame
    devices: list[tuple[int, int]]
    impossible: int


def _place(index: CallIndex, rows: pl.DataFrame) -> _Piece:
    """Tie rows to their launching calls and drop what is not needed afterwards."""
    possible = rows.filter(_is_possible())
    correlation_id = possible["correlation_id"].fill_null(-1).to_numpy()
    calls = index.rows(possible["process"].to_numpy(), correlation_id)
    devices = possible.select("process", "device").unique(maintain_order=True)
    is_kernel = "name_id" in rows.columns
    name_id = pl.col("name_id").fill_null(0) if is_kernel else pl.lit(REPLAY, pl.Int64)
    work = possible.select(
        "start_ns",
        "end_ns",
        pl.Series("call", calls),
        name_id.alias("name_id"),
        _rank(devices),
    )
    return _Piece(work, devices.rows(), rows.height - possible.height)


def _is_possible() -> pl.Expr:
    zero = (pl.col("start_ns") == 0) & (pl.col("end_ns") == 0)
    return (pl.col("end_ns") >= pl.col("start_ns")) & zero.not_()


def _rank(devices: pl.DataFrame) -> pl.Expr:
    """Index of each row's (process, device) among ``devices``; most captures have one."""
    if devices.height < 2:
        return pl.lit(0, pl.UInt16).alias("rank")
    rank = pl.lit(None, pl.UInt16)
    for number, (process, device) in enumerate(devices.rows()):
        here = (pl.col("process") == process) & (pl.col("device") == device)
        rank = pl.when(here).then(pl.lit(number, pl.UInt16)).otherwise(rank)
    return rank.alias("rank")


def _gather(pieces: Sequence[_Piece]) -> tuple[list[tuple[int, int]], pl.DataFrame]:
    """All pieces as one frame, their ranks numbered alike, in order of (process, device)."""
    ranks = sorted({device for piece in pieces for device in piece.devices})
    number = {device: rank for rank, device in enumerate(ranks)}
    empty = pl.DataFrame(
        schema={
            "start_ns": pl.Int64,
            "end_ns": pl.Int64,
            "call": pl.Int32,
            "name_id": pl.Int64,
            "rank": pl.UInt16,
        }
    )
    frames = [_renumbered(piece, [number[device] for device in piece.devices]) for piece in pieces]
    return ranks, pl.concat([empty, *frames])


def _renumbered(piece: _Piece, numbers: list[int]) -> pl.DataFrame:
    if numbers == list(range(len(numbers))):
        return piece.work
    return piece.work.with_columns(
        pl.col("rank").replace_strict(dict(enumerate(numbers)), return_dtype=pl.UInt16)
    )


def _step_of_call(call: pl.Series, steps: Steps) -> pl.Series:
    """Step of each piece of work; a trace without steps is one unit, step 0."""
    if steps.method == NO_STEPS:
        return pl.zeros(call.len(), pl.Int32, eager=True).alias("step")
    step_of = np.append(steps.launches["step"].to_numpy(), np.int32(NO_LAUNCH_CALL))
    return pl.Series("step", step_of[call.to_numpy()])


def _by_name(work: pl.DataFrame) -> pl.DataFrame:
    duration = pl.col("end_ns") - pl.col("start_ns")
    return (
        work.lazy()
        .group_by(*_KEYS, "name_id")
        .agg(
            kernels=pl.len().cast(pl.Int64),
            kernel_ns=duration.sum(),
            longest_ns=duration.max(),
            first_ns=pl.col("start_ns").min(),
            last_ns=pl.col("end_ns").max(),
        )
        .sort(*_KEYS, "name_id")
        .collect()
    )


def _by_step(work: pl.DataFrame, by_name: pl.DataFrame, launches: pl.DataFrame) -> pl.DataFrame:
    is_replay = pl.col("name_id") == REPLAY
    groups = (
        by_name.group_by(*_KEYS, maintain_order=True)
        .agg(
            kernels=pl.col("kernels").filter(is_replay.not_()).sum(),
            replays=pl.col("kernels").filter(is_replay).sum(),
            kernel_ns=pl.col("kernel_ns").sum(),
            first_ns=pl.col("first_ns").min(),
            last_ns=pl.col("last_ns").max(),
        )
        .with_row_index("group")
    )
    number = _group_number(work, groups)
    busy = union_ns(
        work["start_ns"].to_numpy(), work["end_ns"].to_numpy(), number, groups.height
    )
    made = launches.group_by("step").agg(launch_calls_made=pl.col("is_launch").sum().cast(pl.Int64))
    return (
        groups.with_columns(pl.Series("busy_ns", busy))
        .join(_launch_calls(work, launches), on=list(_KEYS), how="left", maintain_order="left")
        .join(made, on="step", how="left", maintain_order="left")
        .drop("group")
        .with_columns(
            pl.col("launch_calls", "graph_launches", "launch_calls_made").fill_null(0)
        )
    )


def _group_number(work: pl.DataFrame, groups: pl.DataFrame) -> np.ndarray[tuple[int], np.dtype[np.int32]]:
    """Row number in ``groups`` of each row's (rank, step), by a table over both."""
    steps, ranks = groups["step"].to_numpy(), groups["rank"].to_numpy().astype(np.int64)
    lowest = int(steps.min(initial=0))
    width = int(steps.max(initial=0)) - lowest + 1
    table = np.full((int(ranks.max(initial=0)) + 1) * width, -1, np.int32)
    table[ranks * width + (steps - lowest)] = np.arange(groups.height, dtype=np.int32)
    at = work["rank"].to_numpy().astype(np.int64) * width + (work["step"].to_numpy() - lowest)
    return table[at]


def _launch_calls(work: pl.DataFrame, launches: pl.DataFrame) -> pl.DataFrame:
    """Distinct launching calls per (rank, step); a graph replay counts once."""
    calls = work.select(*_KEYS, "call").filter(pl.col("call") >= 0)
    # All kernels of a replay lie side by side with one call: drop most repeats cheaply.
    calls = calls.filter((pl.col("call") != pl.col("call").shift(1)).fill_null(True)).unique()
    is_graph = launches["is_graph"].to_numpy()[calls["call"].to_numpy()]
    return (
        calls.with_columns(pl.Series("is_graph", is_graph, pl.Boolean))
        .group_by(*_KEYS)
        .agg(
            launch_calls=pl.len().cast(pl.Int64),
            graph_launches=pl.col("is_graph").sum().cast(pl.Int64),
        )
    )


def _memory(trace: Trace, steps: Steps, index: CallIndex) -> pl.DataFrame:
    """Copies and sets per step; they are GPU work, but not kernels."""
    columns = [*_COLUMNS, "bytes"]
    totals = [
        piece.with_columns(kind=pl.lit(kind))
        for table, kind in (("copies", "copy"), ("sets", "set"))
        for piece in trace.map_rows(table, columns, partial(_memory_piece, index, steps))
    ]
    schema = {
        "step": pl.Int32,
        "operations": pl.Int64,
        "memory_ns": pl.Int64,
        "bytes": pl.Int64,
        "kind": pl.String,
    }
    return (
        pl.concat([pl.DataFrame(schema=schema), *totals])
        .group_by("step", "kind")
        .agg(pl.col("operations", "memory_ns", "bytes").sum())
        .sort("step", "kind")
    )


def _memory_piece(index: CallIndex, steps: Steps, rows: pl.DataFrame) -> pl.DataFrame:
    possible = rows.filter(_is_possible())
    correlation_id = possible["correlation_id"].fill_null(-1).to_numpy()
    calls = pl.Series(index.rows(possible["process"].to_numpy(), correlation_id))
    return (
        possible.with_columns(_step_of_call(calls, steps))
        .group_by("step")
        .agg(
            operations=pl.len().cast(pl.Int64),
            memory_ns=(pl.col("end_ns") - pl.col("start_ns")).sum(),
            bytes=pl.col("bytes").sum(),
        )
    )


def _describe_ranks(ranks: list[tuple[int, int]], by_name: pl.DataFrame) -> pl.DataFrame:
    described = pl.DataFrame(
        ranks, schema={"process": pl.Int64, "device": pl.Int32}, orient="row"
    ).with_row_index("rank")
    totals = by_name.group_by("rank").agg(
        kernels=pl.col("kernels").filter(pl.col("name_id") != REPLAY).sum(),
        kernel_ns=pl.col("kernel_ns").sum(),
    )
    return described.with_columns(pl.col("rank").cast(pl.UInt16)).join(
        totals, on="rank", how="left", maintain_order="left"
    )
