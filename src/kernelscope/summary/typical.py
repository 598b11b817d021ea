"""The typical step of each phase, kernel by kernel: the one that is drawn.

An average has no kernels to look at; the step in the middle has. It is the complete step of the
usual kernel count whose span is the median of such steps.
"""

from __future__ import annotations

import numpy as np
import polars as pl

from kernelscope.frames import Schema
from kernelscope.placement import Placed
from kernelscope.step_table import COMPLETE, TRACE
from kernelscope.summary.tables import PHASE_KEYS

TYPICAL: Schema = {
    "rank": pl.UInt16(),
    "phase": pl.String(),
    "batch": pl.Int64(),
    "step": pl.Int32(),
    "place": pl.UInt32(),
    "short_name": pl.String(),
    "category": pl.String(),
    "family": pl.String(),
    "start_ns": pl.Int64(),
    "end_ns": pl.Int64(),
}
"""One row per kernel of the typical step of each rank, phase and batch.

``step`` is its number in the step table, ``place`` the kernel's in order of start, from 0.
``start_ns`` and ``end_ns`` count from the first kernel's start. A replay that was recorded as a
whole is one row. A trace that is summarized as one unit has no step to show.
"""


def typical_steps(placed: Placed, names: pl.DataFrame, steps: pl.DataFrame) -> pl.DataFrame:
    """The kernels of each phase's typical step (:data:`TYPICAL`).

    Args:
        placed: every kernel in its step.
        names: :attr:`kernelscope.analysis.Analysis.names`.
        steps: the step table with ``batch``.
    """
    chosen = _chosen(steps).join(placed.groups, on=["rank", "step"], maintain_order="left")
    group = placed.work["group"].to_numpy()
    wanted = chosen["group"].to_numpy()
    first, end = (np.searchsorted(group, wanted, side=side) for side in ("left", "right"))
    pieces = [
        _kernels(placed.work.slice(begin, stop - begin), names, key)
        for begin, stop, key in zip(
            first.tolist(), end.tolist(), chosen.drop("group").iter_rows(named=True), strict=True
        )
    ]
    return pl.concat([pl.DataFrame(schema=dict(TYPICAL)), *pieces])


def _chosen(steps: pl.DataFrame) -> pl.DataFrame:
    """The key and number of each typical step; of an even number the shorter middle one."""
    counted = pl.col("kernels") + pl.col("replays")
    usual = counted.mode().min().over(PHASE_KEYS)
    middle = ((pl.len() - 1) // 2).over(PHASE_KEYS)
    return (
        steps.filter((pl.col("status") == COMPLETE) & (pl.col("phase") != TRACE))
        .filter(counted == usual)
        .sort(*PHASE_KEYS, "span_ns", "step")
        .filter(pl.int_range(pl.len()).over(PHASE_KEYS) == middle)
        .select(*PHASE_KEYS, "step")
    )


def _kernels(work: pl.DataFrame, names: pl.DataFrame, key: dict[str, object]) -> pl.DataFrame:
    first_ns = work["start_ns"].min()
    return (
        names.select("short_name", "category", "family")[work["name"]]
        .with_columns(
            (work["start_ns"] - first_ns).alias("start_ns"),
            (work["end_ns"] - first_ns).alias("end_ns"),
            pl.int_range(pl.len()).alias("place"),
            **{name: pl.lit(value) for name, value in key.items()},
        )
        .select(pl.col(name).cast(kind) for name, kind in TYPICAL.items())
    )
