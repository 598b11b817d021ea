"""The replays that make up one step: with speculative decoding the target's and the drafts'.

A step is one label however many graphs it launches. Where a decode step launches a few, each is
shown as a part of it, by its place in the step. A step of very many is compiled piece by piece;
its pieces are no passes of a model.
"""

from __future__ import annotations

import numpy as np
import polars as pl

from kernelscope.placement import Placed
from kernelscope.step_table import COMPLETE
from kernelscope.steps import Steps
from kernelscope.summary.tables import PHASE_KEYS

MOST_PARTS = 8

_NS_PER_MS = 1e6
SCHEMA = {
    "rank": pl.UInt16,
    "phase": pl.String,
    "batch": pl.Int64,
    "part": pl.UInt32,
    "steps": pl.UInt32,
    "kernels_per_step": pl.Float64,
    "kernel_ms": pl.Float64,
    "span_ms": pl.Float64,
}


def find_parts(placed: Placed, steps: Steps, table: pl.DataFrame) -> pl.DataFrame:
    """The replays of complete steps that launch between two and :data:`MOST_PARTS` graphs.

    Returns:
        One row per rank, phase, batch and ``part`` (from 1, in order of start): ``steps`` that
        have it, ``kernels_per_step``, ``kernel_ms`` and ``span_ms`` (first start to last end;
        float64, means). Empty where steps are one replay or none. Columns: :data:`SCHEMA`.
    """
    several = table.filter(
        (pl.col("status") == COMPLETE) & pl.col("graph_launches").is_between(2, MOST_PARTS)
    )
    if several.is_empty():
        return pl.DataFrame(schema=SCHEMA)
    chosen = placed.groups.join(several.select(*PHASE_KEYS, "step"), on=["rank", "step"])
    return (
        _replays(placed, steps, chosen)
        .with_columns(part=pl.int_range(1, pl.len() + 1, dtype=pl.UInt32).over("group"))
        .join(chosen, on="group")
        .group_by(*PHASE_KEYS, "part")
        .agg(
            steps=pl.len(),
            kernels_per_step=pl.col("kernels").mean(),
            kernel_ms=pl.col("kernel_ns").mean() / _NS_PER_MS,
            span_ms=pl.col("span_ns").mean() / _NS_PER_MS,
        )
        .sort(*PHASE_KEYS, "part")
        .cast(pl.Schema(SCHEMA))
        .select(*SCHEMA)
    )


def _replays(placed: Placed, steps: Steps, chosen: pl.DataFrame) -> pl.DataFrame:
    """One row per replay of the chosen groups, sorted by group and start."""
    is_graph = np.append(steps.launches["is_graph"].to_numpy(), np.False_)
    wanted = np.zeros(placed.groups.height, bool)
    wanted[chosen["group"].to_numpy()] = True
    work = placed.work
    mine = wanted[work["group"].to_numpy()] & is_graph[work["call"].to_numpy()]
    return (
        work.filter(pl.Series(mine))
        .group_by("group", "call")
        .agg(
            kernels=pl.len(),
            kernel_ns=(pl.col("end_ns") - pl.col("start_ns")).sum(),
            start_ns=pl.col("start_ns").min(),
            span_ns=pl.col("end_ns").max() - pl.col("start_ns").min(),
        )
        .sort("group", "start_ns")
    )
