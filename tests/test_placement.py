"""Every kernel in its step on its rank."""

import polars as pl
import pytest

from export_builder import DECODE, GRAPH_LAUNCH, LAUNCH
from kernelscope.nsys import source
from kernelscope.placement import REPLAY, place
from kernelscope.steps import split_steps


@pytest.fixture
def placed(read):
    def build(export, **options):
        trace = read(export, **options)
        return place(trace, split_steps(trace))

    return build


def steps_of(placed):
    return placed.work.join(placed.groups, on="group", maintain_order="left")["step"].to_list()


def test_every_kernel_is_placed_once(placed, run_export):
    found = placed(run_export)
    assert found.work.height == 14
    assert sorted(steps_of(found)) == [0] * 2 + [1] * 4 + [2] * 4 + [3] * 4


def test_reading_in_pieces_places_alike(placed, run_export, monkeypatch):
    whole = placed(run_export)
    monkeypatch.setattr(source, "_PIECE_ROWS", 3)
    pieces = placed(run_export)
    assert steps_of(pieces) == steps_of(whole)
    assert pieces.calls.height == whole.calls.height


def test_a_rank_is_a_process_on_a_device(placed, export):
    for pid, device in ((20, 0), (10, 1), (10, 0)):
        export.kernel("nvjet_a", 10, 5, pid=pid, device=device)
    ranks = placed(export).ranks
    assert ranks["rank"].to_list() == [0, 1, 2]
    assert ranks["device"].to_list() == [0, 1, 0]
    assert ranks["process"].is_sorted()


@pytest.mark.parametrize("seed", range(3))
def test_ranks_are_numbered_alike_whatever_the_order_of_rows(seed, placed, export):
    for pid in (30, 10, 20):
        export.kernel("nvjet_a", 10, 5, pid=pid)
    assert placed(export, shuffle=seed).ranks.equals(placed(export).ranks)


@pytest.mark.parametrize(("start", "duration"), [(0, 0), (50, -10)])
def test_rows_with_impossible_times_are_left_out_and_counted(start, duration, placed, export):
    export.kernel("nvjet_a", 110, 5)
    export.kernel("broken", start, duration)
    found = placed(export)
    assert (found.work.height, found.impossible) == (1, 1)


def test_a_kernel_of_no_length_is_possible(placed, export):
    export.kernel("nvjet_a", 110, 0)
    found = placed(export)
    assert (found.work.height, found.impossible) == (1, 0)


def test_a_replay_is_placed_as_such(placed, export):
    export.step(DECODE, [("nvjet_a", 5)], replay=50)
    found = placed(export)
    assert found.name_ids[found.work["name"]].tolist().count(REPLAY) == 1
    assert steps_of(found) == [0, 0]


def test_a_graph_launch_is_one_call_however_many_kernels_it_starts(placed, export):
    export.step(DECODE, [("nvjet_a", 5)], graph=[("nvjet_b", 1)] * 9)
    calls = placed(export).calls
    assert calls.height == 2
    assert calls["is_graph"].sum() == 1


def test_nodes_and_replay_of_one_launch_are_not_both_counted(placed, export):
    # NSYS_SCHEMA section 11, 14: if both tables have rows for one launch, count the nodes only.
    export.range(DECODE, 100, 200)
    launch = export.call(GRAPH_LAUNCH, 110)
    export.kernel("nvjet_a", 120, 5, launch, node=0)
    export.replay(120, 5, launch)
    export.replay(140, 5, export.call(GRAPH_LAUNCH, 111))
    assert placed(export).work["start_ns"].to_list() == [120_000, 140_000]


def test_work_without_a_call_has_a_group_of_its_own(placed, export):
    export.step(DECODE, [("nvjet_a", 5)])
    export.kernel("nvjet_a", 120, 5)
    export.kernel("nvjet_a", 50, 5, export.call(LAUNCH, 40))
    found = placed(export)
    assert sorted(steps_of(found)) == [-3, -1, 0]
    assert found.groups.filter(pl.col("step") < 0).height >= 2
