"""What the GPU waits for inside a step, and idle time between intervals."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from export_builder import DECODE, LAUNCH
from kernelscope.intervals import idle_before

INTERVALS = st.lists(
    st.tuples(st.integers(0, 3), st.integers(-50, 50), st.integers(0, 20)), max_size=30
)


@given(INTERVALS.filter(bool))
def test_nothing_of_the_group_runs_in_an_idle_time(rows):
    columns = np.array(sorted(rows), np.int64).reshape(-1, 3).T
    group, start, length = (np.ascontiguousarray(column) for column in columns)
    end, found = start + length, idle_before(start, start + length, group)
    for position in np.flatnonzero(found):
        began = start[position] - found[position]
        mine = (group == group[position]) & (end > start)
        assert not (mine & (start < start[position]) & (end > began)).any()


@pytest.fixture
def idle(summarize):
    """Idle time of the decode step by cause, µs: inside replays, for the CPU, between launches."""

    def of(export):
        phase = summarize(export).phase("decode")
        parts = (
            phase.idle_inside_replay_ms,
            phase.idle_for_cpu_ms,
            phase.idle_between_launches_ms,
        )
        assert sum(parts) == pytest.approx(phase.idle_ms)
        return [round(part * 1000, 6) for part in parts]

    return of


def test_a_gap_inside_a_replay_is_the_graphs_own(export, idle):
    export.range(DECODE, 100, 120)
    launch = export.call("cudaGraphLaunch_v10000", 101)
    export.kernel("a", 110, 5, launch, node=0)
    export.kernel("b", 118, 5, launch, node=1)
    assert idle(export) == [3, 0, 0]


def test_a_gap_before_a_late_launch_is_split_at_the_call(export, idle):
    # The GPU is free from 115 on, the call is made at 130, its kernel starts at 134.
    export.range(DECODE, 100, 140)
    export.kernel("a", 110, 5, export.call(LAUNCH, 101))
    export.kernel("b", 134, 5, export.call(LAUNCH, 130))
    assert idle(export) == [0, 15, 4]


def test_a_gap_behind_an_early_launch_is_between_launches(export, idle):
    export.range(DECODE, 100, 140)
    export.kernel("a", 110, 5, export.call(LAUNCH, 101))
    export.kernel("b", 118, 5, export.call(LAUNCH, 102))
    assert idle(export) == [0, 0, 3]


def test_a_kernel_under_another_ends_no_gap(export, idle):
    # 110-130 covers 112-115, so the gap begins at 130.
    export.range(DECODE, 100, 140)
    for start, duration in ((110, 20), (112, 3), (133, 2)):
        export.kernel("a", start, duration, export.call(LAUNCH, 101), stream=start)
    assert idle(export) == [0, 0, 3]


def test_a_launch_bound_phase_is_said_in_words(export, summarize):
    export.range(DECODE, 100, 200)
    export.kernel("a", 110, 5, export.call(LAUNCH, 101))
    export.kernel("b", 190, 5, export.call(LAUNCH, 185))
    (warning,) = [w for w in summarize(export).warnings if "launch-bound" in w]
    assert "of 0.1 ms per step the GPU is idle for 0.1 ms" in warning


def test_a_busy_phase_is_not_called_launch_bound(run_export, summarize):
    assert not [w for w in summarize(run_export).warnings if "launch-bound" in w]
