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
import polars as pl

from kernelscope.intervals import gaps
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
        One row per group with idle time: ``group`` and the three :data:`COLUMNS` (int64, ns),
        which add up to the time from first start to last end that no kernel covers.
    """
    work = placed.work
    group, call = work["group"].to_numpy(), work["call"].to_numpy()
    found = gaps(work["start_ns"].to_numpy(), work["end_ns"].to_numpy(), group)
    after = found.position
    same_call = (call[after] == call[after - 1]) & (call[after] >= 0)
    call_start = np.append(steps.launches["start_ns"].to_numpy(), np.int64(0))[call[after]]
    for_cpu = np.clip(call_start - found.began_ns, 0, found.length_ns)
    for_cpu[same_call | (call[after] < 0)] = 0
    inside = np.where(same_call, found.length_ns, 0)
    return (
        pl.DataFrame(
            {
                "group": group[after],
                INSIDE_REPLAY: inside,
                FOR_CPU: for_cpu,
                BETWEEN_LAUNCHES: found.length_ns - inside - for_cpu,
            },
            schema_overrides={"group": pl.Int32},
        )
        .group_by("group")
        .agg(pl.col(COLUMNS).sum())
    )
