"""What each launch call put on the GPU, summed up per call without keeping the kernels."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import partial

import numpy as np
import numpy.typing as npt
import polars as pl

from kernelscope.numbering import IdNumbers
from kernelscope.steps.replays import opaque_replays
from kernelscope.steps.windows import CallIndex
from kernelscope.trace import Trace

Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]

_SEED = 20
# Only a weight: kernels of a decode step take a few microseconds.
_KERNEL_NS = 10_000


@dataclass(frozen=True, eq=False)
class Contents:
    """The kernels behind each API call.

    Attributes:
        kernels: how many, shape (calls,); 0 for a replay that was recorded as a whole.
        weight: the same, and for such a replay as many as its time usually holds.
        token: a number that is equal for calls with the same names equally often, in whatever
            order; 0 for calls without kernels; shape (calls,), int64.
        name_id: the least of the trace's ids of their names, or very large; shape (calls,).
        is_marked: whether a name among them matches a pattern; shape (calls,).
    """

    kernels: Ints
    weight: Ints
    token: Ints
    name_id: Ints
    is_marked: Bools


def read_contents(
    trace: Trace, index: CallIndex, calls: int, pattern: re.Pattern[str] | None = None
) -> Contents:
    """The contents of every call.

    Args:
        trace: the capture.
        index: finds the call of a kernel.
        calls: how many calls there are.
        pattern: which kernels are marked, by their full names; by default none.

    Raises:
        ExportError: the file is damaged.
    """
    numbering = IdNumbers()
    columns = ["process", "correlation_id", "name_id"]
    parts = trace.map_rows("kernels", columns, partial(_count, index, numbering))
    names = numbering.ids()
    is_marked = _matching(trace, names, pattern)
    # Sums of random numbers wrap around; equal sums mean equal names but for one case in 2**63.
    random = np.random.default_rng(_SEED).integers(1, 1 << 62, size=names.size + 1)
    kernels, token = np.zeros(calls, np.int64), np.zeros(calls, np.int64)
    name_id, marked = np.full(calls, np.iinfo(np.int64).max), np.zeros(calls, bool)
    for call, name, times in parts:
        np.add.at(kernels, call, times)
        np.add.at(token, call, random[name] * times)
        np.minimum.at(name_id, call, names[name])
        marked[call[is_marked[name]]] = True
    contents = Contents(kernels, kernels.copy(), token, name_id, marked)
    _add_opaque(trace, index, contents)
    return contents


def _add_opaque(trace: Trace, index: CallIndex, contents: Contents) -> None:
    replays = opaque_replays(trace, index)
    replays = replays.filter(pl.Series(contents.kernels[replays["call"].to_numpy()] == 0))
    usual = pl.col("size").median().over("graph") / _KERNEL_NS
    replays = replays.with_columns(usual.round().cast(pl.Int64).clip(1).alias("weight"))
    call = replays["call"].to_numpy()
    contents.weight[call] = replays["weight"].to_numpy()
    contents.token[call] = ~replays["graph"].to_numpy()


def _count(
    index: CallIndex, numbering: IdNumbers, rows: pl.DataFrame
) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.int32], Ints]:
    """Call, number of the name, and how often, for the rows of a piece."""
    ids = rows["correlation_id"].fill_null(-1).to_numpy()
    call = index.rows(rows["process"].to_numpy(), ids)
    name = numbering.of(rows["name_id"].fill_null(0).to_numpy())
    pairs = (
        pl.DataFrame({"call": call, "name": name})
        .filter(pl.col("call") >= 0)
        .group_by("call", "name")
        .agg(pl.len().cast(pl.Int64).alias("times"))
    )
    return pairs["call"].to_numpy(), pairs["name"].to_numpy(), pairs["times"].to_numpy()


def _matching(trace: Trace, ids: Ints, pattern: re.Pattern[str] | None) -> Bools:
    """Which of the names match; none without a pattern."""
    if pattern is None:
        return np.zeros(ids.size, bool)
    names = trace.names(pl.Series(ids, dtype=pl.Int64))
    found = [number for number, name in names.rows() if pattern.search(name)]
    return np.isin(ids, found)
