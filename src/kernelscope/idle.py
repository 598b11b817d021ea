"""What the GPU waits for inside a step.

Each gap between kernels of a step is split by what its end shows:

- inside a replay: the kernel that ends the gap was launched by the same API call as the one
  before it, so the graph itself leaves the device idle;
- waiting for the CPU: up to the moment at which the API call that launches the next kernel is
  made, nothing could run;
- between launches: the rest, from that call to the kernel's start.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import polars as pl

from kernelscope.intervals import Int64, idle_before, run_starts
from kernelscope.placement import Placed
from kernelscope.steps import Steps

INSIDE_REPLAY = "idle_inside_replay_ns"
FOR_CPU = "idle_for_cpu_ns"
BETWEEN_LAUNCHES = "idle_between_launches_ns"
COLUMNS = (INSIDE_REPLAY, FOR_CPU, BETWEEN_LAUNCHES)


def split_idle(placed: Placed, steps: Steps) -> pl.DataFrame:
    """Idle time per group, by what it waits for.

    Args:
        placed: the kernels, sorted by group and start.
        steps: their steps, for the times of the launching calls.

    Returns:
        One row per group with work: ``group`` and the three :data:`COLUMNS` (int64, ns), which
        add up to the time from first start to last end that no kernel covers.
    """
    work = placed.work
    start, group, call = (work[name].to_numpy() for name in ("start_ns", "group", "call"))
    idle = idle_before(start, work["end_ns"].to_numpy(), group)
    same_call = np.zeros(call.size, bool)
    np.equal(call[1:], call[:-1], out=same_call[1:])
    same_call &= call >= 0
    first = run_starts(group)
    total = _sums(idle, first)
    inside = _sums(np.where(same_call, idle, 0), first)
    for_cpu = np.zeros(placed.groups.height, np.int64)
    waits = np.flatnonzero((idle > 0) & ~same_call & (call >= 0))
    call_start = steps.launches["start_ns"].to_numpy()[call[waits]]
    free_since = start[waits] - idle[waits]
    np.add.at(for_cpu, group[waits], np.clip(call_start - free_since, 0, idle[waits]))
    numbers = group[first]
    return pl.DataFrame(
        {
            "group": numbers,
            INSIDE_REPLAY: inside,
            FOR_CPU: for_cpu[numbers],
            BETWEEN_LAUNCHES: total - inside - for_cpu[numbers],
        },
        schema_overrides={"group": pl.Int32},
    )


def _sums(values: Int64, first: npt.NDArray[np.intp]) -> Int64:
    """Sums per group, from the position of each group's first entry."""
    return np.asarray(np.add.reduceat(values, first), np.int64) if first.size else values[:0]
