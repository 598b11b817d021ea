"""Sums, unions and counts per step."""

import polars as pl
import pytest

from export_builder import DECODE, LAUNCH
from kernelscope.measure import measure
from kernelscope.placement import place
from kernelscope.steps import split_steps

COPY = "cudaMemcpyAsync_v3020"


@pytest.fixture
def measured(read):
    def build(export, **options):
        trace = read(export, **options)
        steps = split_steps(trace)
        return measure(trace, steps, place(trace, steps))

    return build


@pytest.fixture
def two_streams(export):
    """One step; kernels at 110-120 and 115-130 µs on two streams, 140-141 later."""
    export.range(DECODE, 100, 105)
    for name, start, duration, stream in (("a", 110, 10, 7), ("b", 115, 15, 8), ("a", 140, 1, 7)):
        export.kernel(name, start, duration, export.call(LAUNCH, 101), stream=stream)
    return export


def test_kernel_time_is_the_sum_and_busy_the_union(measured, two_streams):
    (row,) = measured(two_streams).by_step.to_dicts()
    assert row["kernel_ns"] == 26_000  # 10 + 15 + 1
    assert row["busy_ns"] == 21_000  # 110 to 130, 140 to 141
    assert (row["first_ns"], row["last_ns"]) == (110_000, 141_000)


def test_kernels_of_one_stream_may_overlap(measured, export):
    # Programmatic dependent launch: the next kernel starts before this one ends.
    export.range(DECODE, 100, 105)
    for start in (110, 115):
        export.kernel("a", start, 10, export.call(LAUNCH, 101))
    (row,) = measured(export).by_step.to_dicts()
    assert (row["kernel_ns"], row["busy_ns"]) == (20_000, 15_000)


def test_devices_are_busy_apart(measured, export):
    export.range(DECODE, 100, 105)
    for device in (0, 1):
        export.kernel("a", 110, 10, export.call(LAUNCH, 101), device=device)
    assert measured(export).by_step["busy_ns"].to_list() == [10_000, 10_000]


def test_steps_are_busy_apart_even_where_they_overlap(measured, export):
    export.step(DECODE, [("a", 150)])
    export.step(DECODE, [("a", 10)])
    assert measured(export).by_step["busy_ns"].to_list() == [150_000, 10_000]


def test_names_are_counted_and_summed_per_step(measured, two_streams):
    by_name = measured(two_streams).by_name.sort("kernel_ns")
    assert by_name["kernels"].to_list() == [2, 1]
    assert by_name["kernel_ns"].to_list() == [11_000, 15_000]
    assert by_name["longest_ns"].to_list() == [10_000, 15_000]


def test_copies_and_sets_stand_beside_the_kernels(measured, two_streams):
    two_streams.copy(112, 3, two_streams.call(COPY, 102), size=100)
    two_streams.copy(113, 2, two_streams.call(COPY, 103), size=50)
    two_streams.memset(114, 1, two_streams.call("cudaMemsetAsync_v3020", 104), size=7)
    found = measured(two_streams)
    assert found.memory.select("kind", "operations", "memory_ns", "bytes").rows() == [
        ("copy", 2, 5_000, 150),
        ("set", 1, 1_000, 7),
    ]
    assert found.by_step["kernel_ns"].to_list() == [26_000]
    assert found.by_step["busy_ns"].to_list() == [21_000]


def test_a_copy_within_the_host_is_no_gpu_work(measured, two_streams):
    two_streams.copy(112, 3, two_streams.call(COPY, 102), kind=9)
    assert measured(two_streams).memory.is_empty()


def test_copies_belong_to_the_rank_that_made_them(measured, export):
    for pid in (10, 20):
        export.step(DECODE, [("a", 10)], pid=pid)
    export.copy(112, 3, export.call(COPY, 110, pid=20), pid=20)
    memory = measured(export).memory
    assert memory["operations"].sum() == 1
    assert memory.filter(pl.col("step") == 1)["operations"].sum() == 1


def test_launch_calls_are_those_with_work_on_the_gpu(measured, two_streams):
    two_streams.call(LAUNCH, 102)
    (row,) = measured(two_streams).by_step.to_dicts()
    assert (row["launch_calls"], row["launch_calls_made"]) == (3, 4)


def test_what_was_impossible_is_handed_on(measured, two_streams):
    two_streams.kernel("broken", 0, 0)
    assert measured(two_streams).impossible == 1


def test_ranks_say_what_they_did(measured, run_export):
    run_export.kernel("nvjet_a", 5_000, 3, pid=77)
    ranks = measured(run_export).ranks
    # 14 kernels: prefill 40 µs, and three times 10 µs.
    assert ranks.select("kernels", "kernel_ns").rows() == [(1, 3_000), (14, 70_000)]
