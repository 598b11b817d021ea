"""Where an engine's thread meets the host's data: its copies in and out, and its waits.

Every step of an engine copies its input to the GPU or its tokens back, or waits for them. No
layer does (copies within the GPU are another matter), which tells steps from layers.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import polars as pl

from kernelscope.api_names import WAIT, as_regex
from kernelscope.steps.launches import Launches, Thread
from kernelscope.steps.windows import CallIndex
from kernelscope.trace import Trace

Ints = npt.NDArray[np.int64]

# CUPTI's numbers: host to device, device to host.
_HOST_COPIES = (1, 2)


def read_contacts(trace: Trace, launches: Launches, index: CallIndex) -> pl.DataFrame:
    """The calls that copy to or from the host or wait: ``thread`` and ``start_ns``, sorted.

    Raises:
        ExportError: the file is damaged.
    """
    calls = launches.calls
    names = trace.names(calls["name_id"])
    waits = names.filter(pl.col("name").str.contains(as_regex(WAIT)))["id"]
    is_contact = calls["name_id"].is_in(waits.implode()).fill_null(value=False).to_numpy().copy()
    copies = trace.read("copies", ["process", "correlation_id", "copy_kind"])
    copies = copies.filter(pl.col("copy_kind").is_in(_HOST_COPIES))
    ids = copies["correlation_id"].fill_null(-1).to_numpy()
    row = index.rows(copies["process"].to_numpy(), ids)
    is_contact[row[row >= 0]] = True
    contacts = calls.select("thread", "start_ns").filter(pl.Series(is_contact))
    return contacts.sort("thread", "start_ns")


def contacts_before(thread: Thread, contacts: pl.DataFrame) -> Ints:
    """How many contacts a thread had made before each launch, and in all; shape (n + 1,)."""
    mine = contacts.filter(pl.col("thread") == thread.thread)["start_ns"].to_numpy()
    return np.append(np.searchsorted(mine, thread.start_ns, side="right"), mine.size)
