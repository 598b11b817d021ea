"""CUDA-graph replays, tied to the API calls that launched them."""

from __future__ import annotations

from functools import partial

import numpy as np
import polars as pl

from kernelscope.intervals import run_starts
from kernelscope.steps.windows import CallIndex
from kernelscope.trace import Trace

_NODE_BITS = 32


def read_replays(trace: Trace, index: CallIndex) -> pl.DataFrame:
    """Every replay of a CUDA graph that can be tied to its launch.

    Returns:
        ``call`` (int32, row of the launching call), ``graph`` (int64), ``kernels`` (int64, 0
        where the replay was recorded as a whole) and ``size`` (float64): its kernels, or then
        its time in ns.
    """
    columns = ["process", "correlation_id", "graph_node"]
    parts = [_no_replays(), *trace.map_rows("kernels", columns, partial(_recorded, index))]
    recorded = (
        pl.concat(parts)
        .group_by("call", maintain_order=True)
        .agg(pl.col("graph").min(), pl.col("kernels").sum())
        .with_columns(size=pl.col("kernels").cast(pl.Float64))
    )
    opaque = opaque_replays(trace, index).join(recorded, on="call", how="anti")
    return pl.concat([recorded, opaque])


def _no_replays() -> pl.DataFrame:
    return pl.DataFrame(schema={"call": pl.Int32, "graph": pl.Int64, "kernels": pl.Int64})


def _recorded(index: CallIndex, rows: pl.DataFrame) -> pl.DataFrame:
    """Kernels per replay. The kernels of a replay lie side by side: only heads are looked up."""
    in_graph = rows.filter(pl.col("graph_node").is_not_null())
    ids = in_graph["correlation_id"].fill_null(-1).to_numpy()
    process = in_graph["process"].to_numpy()
    heads = np.union1d(run_starts(ids), run_starts(process))
    if heads.size == 0:
        return _no_replays()
    call = index.rows(process[heads], ids[heads])
    graph = in_graph["graph_node"].to_numpy()[heads] >> _NODE_BITS
    kernels = np.diff(np.append(heads, ids.size))
    return pl.DataFrame({"call": call, "graph": graph, "kernels": kernels}).filter(
        pl.col("call") >= 0
    )


def opaque_replays(trace: Trace, index: CallIndex) -> pl.DataFrame:
    """Replays that were recorded as a whole, as :func:`read_replays` gives them."""
    columns = ["start_ns", "end_ns", "process", "correlation_id", "graph_exec_id", "graph_id"]
    rows = trace.read("graph_replays", columns)
    call = index.rows(rows["process"].to_numpy(), rows["correlation_id"].fill_null(-1).to_numpy())
    return (
        rows.select(
            pl.Series("call", call, pl.Int32),
            pl.coalesce("graph_exec_id", "graph_id", 0).alias("graph"),
            pl.lit(0, pl.Int64).alias("kernels"),
            (pl.col("end_ns") - pl.col("start_ns")).cast(pl.Float64).alias("size"),
        )
        .filter(pl.col("call") >= 0)
        .unique("call", maintain_order=True)
    )
