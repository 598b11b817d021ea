"""Steps by gaps of the device timeline, where those between steps clearly stand out."""

from __future__ import annotations

from functools import partial

import numpy as np
import numpy.typing as npt
import polars as pl

from kernelscope.steps.contacts import contacts_before, read_contacts
from kernelscope.steps.found import DEVICE_GAPS, Declined, Steps
from kernelscope.steps.inferred import Pieces, count, steps_of
from kernelscope.steps.launches import Launches, Thread
from kernelscope.steps.recurrence import LEAST_STEPS, alike
from kernelscope.steps.windows import CallIndex
from kernelscope.trace import Trace

Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]

_CLEAR = 3.0
_MOST_GAPS = 0.5
_MOST_STEPS = 2 / 3
_MOST_KERNELS = 0.5
_MOST_SPREAD = 2
_NS_PER_US = 1e3


def by_gaps(trace: Trace) -> Steps | Declined:
    """Find steps by gaps between kernels that are clearly longer than all others.

    Raises:
        ExportError: the file is damaged.
    """
    launches = Launches.of(trace)
    if not launches.threads:
        return Declined(DEVICE_GAPS, "no launching API call was recorded")
    index = CallIndex.of(launches.calls)
    work, contacts = _read_work(trace, index), read_contacts(trace, launches, index)
    reasons, found, gaps = [], [], []
    for thread in launches.threads:
        outcome = _find(thread, work, contacts_before(thread, contacts))
        if isinstance(outcome, str):
            reasons.append(outcome)
        else:
            found.append(outcome[0])
            gaps.append(outcome[1])
    if not found:
        return Declined(DEVICE_GAPS, reasons[0])
    steps = sum(pieces.first.size for pieces in found)
    evidence = (
        f"{steps:,} equal steps between gaps of {min(gaps) / _NS_PER_US:,.0f} µs or more on the"
        f" device, at least {_CLEAR:g} times as long as any other, on {count(len(found), 'thread')}"
    )
    return steps_of(launches, found, DEVICE_GAPS, evidence)


def _read_work(trace: Trace, index: CallIndex) -> pl.DataFrame:
    """Kernels and replays recorded as a whole, with the row of their ``call``."""
    columns = ["start_ns", "end_ns", "process", "device", "correlation_id"]
    tables = ("kernels", "graph_replays")
    parts = [p for table in tables for p in trace.map_rows(table, columns, partial(_tied, index))]
    return pl.concat(parts).sort("device", "start_ns", maintain_order=True)


def _tied(index: CallIndex, rows: pl.DataFrame) -> pl.DataFrame:
    ids = rows["correlation_id"].fill_null(-1).to_numpy()
    call = index.rows(rows["process"].to_numpy(), ids)
    tied = rows.select("start_ns", "end_ns", "device", pl.Series("call", call, pl.Int64))
    return tied.filter((pl.col("call") >= 0) & (pl.col("end_ns") >= pl.col("start_ns")))


def _find(thread: Thread, work: pl.DataFrame, contacts: Ints) -> tuple[Pieces, int] | str:
    """The steps of one thread and the shortest gap between them, or why there are none."""
    rows = pl.DataFrame({"call": thread.rows, "position": np.arange(thread.rows.size)})
    mine = work.join(rows, on="call", how="inner", maintain_order="left")
    if mine["device"].n_unique() != 1:
        return f"its kernels run on {mine['device'].n_unique()} devices"
    busy_until = np.maximum.accumulate(mine["end_ns"].to_numpy())
    gap = np.append(0, mine["start_ns"].to_numpy()[1:] - busy_until[:-1])
    clear = _clear_gaps(np.maximum(gap[1:], 1))
    for least in clear:
        pieces = _pieces(thread, mine, gap >= least)
        if pieces is not None and _have_contact(pieces, contacts):
            return pieces, least
    if not clear:
        return f"no gaps on the device are {_CLEAR:g} times as long as all shorter ones"
    return "the pieces between long gaps on the device are unequal in kernels or time"


def _pieces(thread: Thread, work: pl.DataFrame, is_begin: Bools) -> Pieces | None:
    """The equal pieces among those that begin so; None if they are few or not apart.

    Equal pieces have equally many kernels and last about as long.
    """
    begins = np.append(0, np.flatnonzero(is_begin))
    position, start, end = (work[name].to_numpy() for name in ("position", "start_ns", "end_ns"))
    kernels = np.diff(np.append(begins, position.size))
    span = np.maximum.reduceat(end, begins) - start[begins]
    first = np.minimum.reduceat(position, begins)
    last = np.maximum.reduceat(position, begins) + 1
    usual = np.median(span)
    keep = alike(kernels, np.full_like(kernels, int(np.median(kernels))))
    keep &= (span <= usual * _MOST_SPREAD) & (span * _MOST_SPREAD >= usual)
    is_most = keep.mean() >= _MOST_STEPS and kernels[keep].sum() >= _MOST_KERNELS * kernels.sum()
    if keep.sum() < LEAST_STEPS or not is_most or np.any(first[1:] < last[:-1]):
        return None
    labels = [f"piece {number}" for number in range(1, int(keep.sum()) + 1)]
    return Pieces(thread, first[keep], last[keep], labels)


def _have_contact(pieces: Pieces, contacts: Ints) -> bool:
    """Whether most pieces copy or wait up to the next one, if the thread ever does."""
    met = np.diff(contacts[pieces.first]) > 0
    return bool(contacts[-1] == 0 or met.mean() >= _MOST_STEPS)


def _clear_gaps(gap: Ints) -> list[int]:
    """The shortest gap of each group that stands out, the largest group first.

    The longest gaps alone may be pauses between requests, so there may be several groups.
    """
    ordered = np.sort(gap)
    few = max(LEAST_STEPS, int(_MOST_GAPS * ordered.size))
    upper = ordered[-few - 1 :]
    jumps = np.flatnonzero(upper[1:] >= _CLEAR * upper[:-1])
    enough = jumps[upper.size - 1 - jumps >= LEAST_STEPS - 1]
    return [int(upper[jump + 1]) for jump in enough]
