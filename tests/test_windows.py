"""Which step a kernel belongs to: by when and on which thread it was launched."""

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

import kernelscope
from export_builder import DECODE, GRAPH_LAUNCH, LAUNCH, PREFILL, RUNTIME, TID, ExportBuilder
from kernelscope import frames
from kernelscope.steps.windows import (
    BEFORE_FIRST_STEP,
    NO_LAUNCH_CALL,
    OTHER_THREAD,
    CallIndex,
)


@pytest.fixture
def step_of(read):
    """Step of each kernel name in a builder's trace; negative outside every step."""

    def find(export, **options):
        placed = kernelscope.classify(read(export, **options), context=False)
        return dict(zip(placed["name"], placed["step"], strict=True))

    return find


@pytest.fixture
def two_steps(export):
    """Labels at 100 to 120 and 200 to 220 µs, each with one kernel; step 0 and step 1."""
    export.step(DECODE, [("first", 5)])
    export.step(DECODE, [("second", 5)])
    return export


def test_a_kernel_is_in_the_step_that_launched_it(two_steps, step_of):
    assert step_of(two_steps) == {"first": 0, "second": 1}


def test_launch_time_decides_and_not_gpu_time(two_steps, step_of):
    # Launched in the first step, run in the second one's range (asynchronous scheduling).
    two_steps.kernel("late on the GPU", 205, 5, two_steps.call(LAUNCH, 119))
    assert step_of(two_steps)["late on the GPU"] == 0


def test_the_window_reaches_to_the_next_label_and_not_to_the_ranges_end(two_steps, step_of):
    # The range closed at 120: lm_head and sampling are launched after that.
    two_steps.kernel("lm_head", 160, 5, two_steps.call(LAUNCH, 150))
    assert step_of(two_steps)["lm_head"] == 0


@pytest.mark.parametrize(("at", "step"), [(199.999, 0), (200, 1), (200.001, 1)])
def test_a_window_holds_its_start_and_not_its_end(at, step, two_steps, step_of):
    two_steps.kernel("at the edge", 230, 5, two_steps.call(LAUNCH, at))
    assert step_of(two_steps)["at the edge"] == step


def test_the_last_window_has_no_end(two_steps, step_of):
    two_steps.kernel("long after", 9_000, 5, two_steps.call(LAUNCH, 8_990))
    assert step_of(two_steps)["long after"] == 1


def test_a_kernel_launched_before_the_first_step_is_outside(two_steps, step_of):
    two_steps.kernel("warm-up", 50, 5, two_steps.call(LAUNCH, 40))
    assert step_of(two_steps)["warm-up"] == BEFORE_FIRST_STEP


def test_work_of_another_thread_is_in_no_step(two_steps, step_of):
    two_steps.kernel("other thread", 115, 5, two_steps.call(LAUNCH, 110, tid=TID + 1))
    assert step_of(two_steps)["other thread"] == OTHER_THREAD


def test_a_kernel_without_a_correlation_id_has_no_launch(two_steps, step_of):
    two_steps.kernel("no id", 115, 5)
    assert step_of(two_steps)["no id"] == NO_LAUNCH_CALL


def test_a_kernel_whose_call_was_not_recorded_has_no_launch(two_steps, step_of):
    two_steps.kernel("edge of the capture", 115, 5, 99_999)
    assert step_of(two_steps)["edge of the capture"] == NO_LAUNCH_CALL


def test_labels_on_two_threads_are_two_lanes(export, step_of):
    export.step(DECODE, [("a0", 5)], at=100, tid=1)
    export.step(DECODE, [("b0", 5)], at=150, tid=2)
    export.step(DECODE, [("a1", 5)], at=200, tid=1)
    assert step_of(export) == {"a0": 0, "a1": 1, "b0": 2}


def test_the_same_correlation_id_in_two_processes_is_two_launches(export, step_of):
    # NSYS_SCHEMA section 13: joined by correlation id alone these would be four matches.
    export.range(PREFILL, 90, 160, pid=1)
    export.range(DECODE, 190, 270, pid=2)
    for pid, at in ((1, 100), (2, 200)):
        export.call(LAUNCH, at, correlation=7, pid=pid)
        export.kernel(f"of {pid}", at + 20, 5, 7, pid=pid)
    assert step_of(export) == {"of 1": 0, "of 2": 1}


def test_a_process_without_labels_is_outside(two_steps, step_of):
    two_steps.kernel("worker", 115, 5, two_steps.call(LAUNCH, 110, pid=77), pid=77)
    assert step_of(two_steps)["worker"] == OTHER_THREAD


def test_negative_process_keys_are_matched(step_of):
    export = ExportBuilder("2024.2", hardware=0xFE)
    export.step(DECODE, [("first", 5)])
    assert step_of(export) == {"first": 0}


def test_of_several_calls_with_one_id_the_launch_counts(two_steps, step_of):
    # A call before every step, and one that is no launch: the launch in step 1 wins.
    for name, at in (("cudaStreamIsCapturing_v10000", 50), (LAUNCH, 201)):
        two_steps.call(name, at, correlation=5)
    two_steps.kernel("twice", 230, 5, 5)
    assert step_of(two_steps)["twice"] == 1


def test_of_several_launches_with_one_id_the_earliest_counts(two_steps, step_of):
    for at in (210, 110):
        two_steps.call(LAUNCH, at, correlation=5)
    two_steps.kernel("twice", 230, 5, 5)
    assert step_of(two_steps)["twice"] == 0


def test_correlation_ids_far_apart_are_matched(two_steps, step_of):
    for name, at, correlation in (("low", 110, 1), ("high", 210, 2**31), ("wide", 215, 2**40)):
        two_steps.kernel(name, 230, 5, two_steps.call(LAUNCH, at, correlation=correlation))
    steps = step_of(two_steps)
    assert (steps["low"], steps["high"], steps["wide"]) == (0, 1, 1)


@pytest.mark.parametrize("seed", range(3))
def test_the_order_of_rows_does_not_matter(seed, two_steps, step_of):
    two_steps.kernel("warm-up", 50, 5, two_steps.call(LAUNCH, 40))
    assert step_of(two_steps, shuffle=seed) == step_of(two_steps)


def test_a_kernel_that_starts_before_its_call_ended_stays_in_its_step(two_steps, step_of):
    # Usual in graphs; a small clock skew may even put it before the call's start.
    two_steps.kernel("skewed", 199, 5, two_steps.call(LAUNCH, 200, 10))
    assert step_of(two_steps)["skewed"] == 1


def test_nested_ranges_are_no_steps_of_their_own(two_steps, step_of):
    two_steps.range("gpu_model_runner: forward", 101, 119)
    two_steps.range("layer.0", 102, 104)
    assert step_of(two_steps) == {"first": 0, "second": 1}


@pytest.mark.parametrize(
    "name",
    [
        "cudaLaunchKernel_v7000",
        "cudaLaunchKernel_ptsz_v7000",
        "cudaLaunchKernelExC_v11060",
        "cudaLaunchCooperativeKernel_v9000",
        "cuLaunchKernel",
        "cuLaunchKernelEx_ptsz",
        "cuLaunchCooperativeKernel",
        "cudaGraphLaunch_v10000",
        "cudaGraphLaunch_ptsz_v10000",
        "cuGraphLaunch",
    ],
)
def test_launches_of_both_interfaces_are_known(name, read, export):
    export.kernel("nvjet_a", 10, 5, export.call(name, 1))
    (launch,) = kernelscope.split_steps(read(export)).launches.to_dicts()
    assert launch["is_launch"]
    assert launch["is_graph"] == ("GraphLaunch" in name)


@pytest.mark.parametrize(
    "name", ["cudaLaunchHostFunc_v10000", "cudaMemcpyAsync_v3020", "cudaGraphInstantiate_v10000"]
)
def test_other_calls_are_no_launches(name, read, export):
    export.kernel("nvjet_a", 10, 5, export.call(name, 1))
    (launch,) = kernelscope.split_steps(read(export)).launches.to_dicts()
    assert not launch["is_launch"]


def test_launches_follow_their_contract_and_are_unique(read, two_steps):
    two_steps.call(GRAPH_LAUNCH, 110, correlation=101)
    launches = kernelscope.split_steps(read(two_steps)).launches
    assert dict(launches.schema) == dict(frames.LAUNCHES)
    assert not launches.select("process", "correlation_id").is_duplicated().any()


def test_without_labels_the_steps_say_so(read, export):
    export.kernel("nvjet_a", 10, 5, export.call(LAUNCH, 1))
    steps = kernelscope.split_steps(read(export))
    assert steps.method == "none"
    assert steps.frame.is_empty()
    assert "no NVTX range is a step label of vLLM" in steps.evidence


def test_labels_are_named_as_the_evidence(read, two_steps):
    steps = kernelscope.split_steps(read(two_steps))
    assert steps.method == "nvtx"
    assert steps.evidence == "2 vLLM step labels on 1 worker thread(s)"


def test_a_trace_without_any_api_calls_has_no_launches(read, two_steps):
    steps = kernelscope.split_steps(read(two_steps, without=[RUNTIME]))
    assert steps.launches.is_empty()
    assert steps.frame.height == 2


@given(
    calls=st.sets(st.tuples(st.integers(-3, 3), st.integers(-(2**40), 2**40) | st.integers(0, 9))),
    wanted=st.lists(
        st.tuples(st.integers(-4, 4), st.integers(-(2**40), 2**40) | st.integers(-1, 10))
    ),
)
def test_the_call_index_finds_what_a_dictionary_finds(calls, wanted):
    rows = sorted(calls)
    launches = pl.DataFrame(
        rows, schema={"process": pl.Int64, "correlation_id": pl.Int64}, orient="row"
    )
    process, ids = (np.array([pair[at] for pair in wanted], np.int64) for at in (0, 1))
    expected = [rows.index(pair) if pair in calls else -1 for pair in wanted]
    assert CallIndex.of(launches).rows(process, ids).tolist() == expected
