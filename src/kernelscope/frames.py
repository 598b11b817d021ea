"""The contract between layers: which columns each frame has, their dtypes and units.

Times are int64 nanoseconds on the export's clock. ``process`` is nsys's global process id
(hardware, virtual machine and process; :func:`kernelscope.trace.pid` takes the pid out of it),
``thread`` its global thread id; both are opaque keys that must never be compared across files.
Ids that a capture did not record are null.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import polars as pl

Schema = Mapping[str, pl.DataType]

# What every row of GPU work has.
_ACTIVITY: Schema = {
    "start_ns": pl.Int64(),
    "end_ns": pl.Int64(),
    "process": pl.Int64(),
    "device": pl.Int32(),
    "context": pl.Int32(),
    "stream": pl.Int32(),
    "correlation_id": pl.Int64(),
}

KERNELS: Schema = {
    **_ACTIVITY,
    "graph_node": pl.Int64(),
    "name_id": pl.Int64(),
    "grid_x": pl.Int32(),
    "grid_y": pl.Int32(),
    "grid_z": pl.Int32(),
    "block_x": pl.Int32(),
    "block_y": pl.Int32(),
    "block_z": pl.Int32(),
}
"""One row per kernel execution on a GPU. ``device`` is the ordinal inside the process."""

GRAPH_REPLAYS: Schema = {
    **_ACTIVITY,
    "graph_id": pl.Int64(),
    "graph_exec_id": pl.Int64(),
}
"""One row per CUDA-graph replay that was recorded as a whole, its kernels not recorded."""

COPIES: Schema = {
    **_ACTIVITY,
    "graph_node": pl.Int64(),
    "bytes": pl.Int64(),
    "copy_kind": pl.Int32(),
}
"""One row per memory copy. ``copy_kind``: 1 host to device, 2 device to host, 8 device to
device, 10 peer to peer (CUPTI's numbers)."""

SETS: Schema = {
    **_ACTIVITY,
    "graph_node": pl.Int64(),
    "bytes": pl.Int64(),
}
"""One row per memory set."""

API_CALLS: Schema = {
    "start_ns": pl.Int64(),
    "end_ns": pl.Int64(),
    "process": pl.Int64(),
    "thread": pl.Int64(),
    "correlation_id": pl.Int64(),
    "name_id": pl.Int64(),
}
"""One row per CUDA runtime or driver call on the CPU."""

GRAPH_NODES: Schema = {
    "start_ns": pl.Int64(),
    "process": pl.Int64(),
    "thread": pl.Int64(),
    "graph_node": pl.Int64(),
    "original_node": pl.Int64(),
}
"""One row per creation of a CUDA-graph node: when and by which thread. ``original_node`` is the
node that it was cloned from; a node has a row without one and, if it is a clone, a row with
one."""

RANGES: Schema = {
    "start_ns": pl.Int64(),
    "end_ns": pl.Int64(),
    "process": pl.Int64(),
    "thread": pl.Int64(),
    "label": pl.String(),
}
"""One row per NVTX range; ``end_ns`` is null for a range that was never closed."""

STEPS: Schema = {
    "step": pl.Int32(),
    "process": pl.Int64(),
    "thread": pl.Int64(),
    "label": pl.String(),
    "phase": pl.String(),
    "context_requests": pl.Int64(),
    "context_tokens": pl.Int64(),
    "context_kv_tokens": pl.Int64(),
    "generation_requests": pl.Int64(),
    "generation_tokens": pl.Int64(),
    "generation_kv_tokens": pl.Int64(),
    "generation_token_squares": pl.Int64(),
    "start_ns": pl.Int64(),
    "range_end_ns": pl.Int64(),
}
"""One row per labelled step, in order of thread and time; ``step`` is the row number.

Tokens are those scheduled in the step. The ``kv_tokens`` (summed context lengths) and
``token_squares`` (sum of squared tokens per request) are null unless the label is detailed.
"""

LAUNCHES: Schema = {
    "process": pl.Int64(),
    "correlation_id": pl.Int64(),
    "start_ns": pl.Int64(),
    "step": pl.Int32(),
    "is_launch": pl.Boolean(),
    "is_graph": pl.Boolean(),
}
"""One row per API call that can have GPU work, sorted by (process, correlation id), which is
unique. ``step`` is negative outside every step (:mod:`kernelscope.steps.windows`);
``is_launch`` marks kernel and graph launches, ``is_graph`` graph launches alone."""


TABLES: Mapping[str, Schema] = {
    "kernels": KERNELS,
    "graph_replays": GRAPH_REPLAYS,
    "copies": COPIES,
    "sets": SETS,
    "api_calls": API_CALLS,
    "graph_nodes": GRAPH_NODES,
}
"""The tables of a trace by their names, each with its contract."""


def empty(schema: Schema) -> pl.DataFrame:
    """A frame of that contract without rows."""
    return pl.DataFrame(schema=dict(schema))


def subset(schema: Schema, columns: Iterable[str]) -> Schema:
    """The named part of a contract, in the order given. KeyError for an unknown column."""
    return {name: schema[name] for name in columns}
