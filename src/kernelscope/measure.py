"""What each step amounts to: counts, sums and unions over the work placed in it."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import numpy as np
import polars as pl

from kernelscope.idle import COLUMNS, split_idle
from kernelscope.placement import REPLAY, Placed, StepFinder, possible_rows
from kernelscope.steps import Steps
from kernelscope.trace import Trace

_KEYS = ("rank", "step")
# CUPTI's number for copies from host to host, which no GPU makes.
_WITHIN_HOST = 9


@dataclass(frozen=True, eq=False)
class Measured:
    """What the GPU did, per step and kernel name.

    Attributes:
        ranks: one row per (process, device) with work: ``rank`` (uint16), ``process`` (int64),
            ``device`` (int32), ``kernels``, ``kernel_ns`` (int64).
        by_name: one row per (rank, step, name): ``kernels`` (count), ``kernel_ns`` (sum of
            durations), ``longest_ns``, and ``is_replay`` for opaque graph replays. ``name`` is
            a row of the names frame, ``step`` negative outside every step.
        by_step: one row per (rank, step): ``kernels``, ``replays``, ``kernel_ns``, ``busy_ns``
            (union of the intervals), ``first_ns`` and ``last_ns`` (first start, last end), the
            idle time between them by cause (:data:`kernelscope.idle.COLUMNS`),
            ``launch_calls`` (calls with work on the GPU), ``graph_launches`` (those among them
            that launch a graph) and ``launch_calls_made`` (kernel and graph launches seen on
            the CPU, with or without work on the GPU).
        memory: one row per (rank, step, kind): ``kind`` ("copy" or "set"), ``operations``,
            ``memory_ns``, ``bytes``.
        impossible: kernels left out because their times cannot be.
    """

    ranks: pl.DataFrame
    by_name: pl.DataFrame
    by_step: pl.DataFrame
    memory: pl.DataFrame
    impossible: int


def measure(trace: Trace, steps: Steps, placed: Placed) -> Measured:
    """Add up the work of every step.

    Raises:
        ExportError: the file is damaged.
    """
    by_name = _by_name(placed)
    totals = by_name.group_by("rank").agg(
        kernels=pl.col("kernels").filter(~pl.col("is_replay")).sum(),
        kernel_ns=pl.col("kernel_ns").sum(),
    )
    return Measured(
        ranks=placed.ranks.join(totals, on="rank", how="left", maintain_order="left"),
        by_name=by_name,
        by_step=_by_step(placed, by_name, steps),
        memory=_memory(trace, steps, placed.ranks),
        impossible=placed.impossible,
    )


def _by_name(placed: Placed) -> pl.DataFrame:
    replay = next(iter(np.flatnonzero(placed.name_ids == REPLAY)), -1)
    duration = pl.col("end_ns") - pl.col("start_ns")
    return (
        placed.work.lazy()
        .group_by("group", "name")
        .agg(
            kernels=pl.len().cast(pl.Int64),
            kernel_ns=duration.sum(),
            longest_ns=duration.max(),
            first_ns=pl.col("start_ns").min(),
            last_ns=pl.col("end_ns").max(),
        )
        .join(placed.groups.lazy(), on="group")
        .with_columns(is_replay=pl.col("name") == replay)
        .sort(*_KEYS, "name")
        .collect()
    )


def _by_step(placed: Placed, by_name: pl.DataFrame, steps: Steps) -> pl.DataFrame:
    is_replay = pl.col("is_replay")
    calls = placed.calls.group_by("group").agg(
        launch_calls=pl.len().cast(pl.Int64), graph_launches=pl.col("is_graph").sum().cast(pl.Int64)
    )
    made = steps.launches.group_by("step").agg(
        launch_calls_made=pl.col("is_launch").sum().cast(pl.Int64)
    )
    return (
        by_name.group_by("group", *_KEYS, maintain_order=True)
        .agg(
            kernels=pl.col("kernels").filter(is_replay.not_()).sum(),
            replays=pl.col("kernels").filter(is_replay).sum(),
            kernel_ns=pl.col("kernel_ns").sum(),
            first_ns=pl.col("first_ns").min(),
            last_ns=pl.col("last_ns").max(),
        )
        .join(split_idle(placed, steps), on="group", how="left", maintain_order="left")
        .join(calls, on="group", how="left", maintain_order="left")
        .join(made, on="step", how="left", maintain_order="left")
        .drop("group")
        .with_columns(
            pl.col("launch_calls", "graph_launches", "launch_calls_made").fill_null(0),
            busy_ns=pl.col("last_ns") - pl.col("first_ns") - pl.sum_horizontal(COLUMNS),
        )
    )


def _memory(trace: Trace, steps: Steps, ranks: pl.DataFrame) -> pl.DataFrame:
    """Copies and sets per step; they are GPU work, but not kernels."""
    add_up = partial(_memory_piece, StepFinder.of(steps))
    columns = ["start_ns", "end_ns", "process", "device", "correlation_id", "bytes"]
    totals = [
        piece.with_columns(kind=pl.lit(kind))
        for table, kind, more in (("copies", "copy", ["copy_kind"]), ("sets", "set", []))
        for piece in trace.map_rows(table, [*columns, *more], add_up)
    ]
    schema = {
        "process": pl.Int64,
        "device": pl.Int32,
        "step": pl.Int32,
        "operations": pl.Int64,
        "memory_ns": pl.Int64,
        "bytes": pl.Int64,
        "kind": pl.String,
    }
    return (
        pl.concat([pl.DataFrame(schema=schema), *totals])
        .group_by("process", "device", "step", "kind")
        .agg(pl.col("operations", "memory_ns", "bytes").sum())
        .join(ranks, on=["process", "device"], how="left")
        .select(*_KEYS, "kind", "operations", "memory_ns", "bytes")
        .sort(*_KEYS, "kind")
    )


def _memory_piece(finder: StepFinder, rows: pl.DataFrame) -> pl.DataFrame:
    possible = possible_rows(rows)
    if "copy_kind" in rows.columns:
        possible = possible.filter(pl.col("copy_kind").ne_missing(_WITHIN_HOST))
    return (
        possible.with_columns(pl.Series("step", finder.steps(possible)))
        .group_by("process", "device", "step")
        .agg(
            operations=pl.len().cast(pl.Int64),
            memory_ns=(pl.col("end_ns") - pl.col("start_ns")).sum(),
            bytes=pl.col("bytes").sum(),
        )
    )
