"""Steps without labels: by recurring graph replays, by a marker kernel, by gaps."""

import os
import runpy
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

import kernelscope
from export_builder import COPY, DECODE, GRAPH_LAUNCH, LAUNCH, PID, RUNTIME, TID
from exports import exported
from kernelscope import errors, frames
from kernelscope.placement import place
from kernelscope.steps import METHODS, split_steps
from kernelscope.steps.cutting import cut_around
from kernelscope.steps.labels import DECODE as DECODE_PHASE
from kernelscope.steps.windows import (
    BEFORE_FIRST_STEP,
    IN_NO_STEP,
    NO_LAUNCH_CALL,
    OUTSIDE,
    START_UP,
)

FIXTURES = Path(__file__).parent.parent / "fixtures"
FOLDER = os.environ.get("KERNELSCOPE_TRACES")
NVTX = "NVTX_EVENTS"
BODY, DRAFT, PREFILL_GRAPH, OTHER_BODY = 1, 2, 3, 4
SIZES = {BODY: 20, OTHER_BODY: 18, DRAFT: 3, PREFILL_GRAPH: 8}
PAUSE = 40


class Run:
    """A thread of an engine that launches kernels and graphs; its GPU works them off in order."""

    def __init__(self, export, pid=PID, tid=TID, device=0, correlation=None):
        self.export, self.who = export, {"pid": pid, "tid": tid}
        self.gpu = {"pid": pid, "device": device}
        self.now = self.free = 1000
        self.correlation = correlation

    def call(self, name, duration=1):
        self.now += 2
        number = None
        if self.correlation is not None:
            self.correlation += 1
            number = self.correlation
        return self.export.call(name, self.now, duration, correlation=number, **self.who)

    def launch(self, *names):
        for name in names:
            self._run([name], self.call(LAUNCH))

    def replay(self, graph, kernels=None):
        names = [f"graph_{graph}_kernel_{n}" for n in range(kernels or SIZES[graph])]
        self._run(names, self.call(GRAPH_LAUNCH), graph)

    def _run(self, names, correlation, graph=None):
        self.free = max(self.free, self.now + 3)
        for number, name in enumerate(names, start=1):
            node = None if graph is None else graph << 34 | number
            self.export.kernel(name, self.free, 2, correlation, node=node, **self.gpu)
            self.free += 2

    def copy(self, kind=1):
        self.export.copy(self.now + 3, 1, self.call(COPY), kind=kind, pid=self.gpu["pid"])

    def pause(self, length=PAUSE):
        self.now += length

    def decode(self, times=1, bodies=(BODY,), extra=()):
        """Steps of two launches before the replays and three behind them."""
        for _ in range(times):
            self.pause()
            self.copy()
            self.launch("slot_mapping", "positions")
            for body in bodies:
                self.replay(body)
            self.launch("lm_head", "softmax", "argmax", *extra)

    def eager(self, times=1, layers=6, *, copy=True):
        """Steps without graphs: 3 kernels before, 2 per layer, 2 after."""
        for _ in range(times):
            self.pause()
            if copy:
                self.copy()
            self.launch("slot_mapping", "positions", "embedding")
            self.launch(*["gemm", "attention"] * layers)
            self.launch("lm_head", "argmax")

    def prefill(self, kernels=60, pieces=()):
        self.pause()
        self.launch(*(f"prefill_{n}" for n in range(kernels)))
        for piece in pieces:
            self.replay(piece, 5)
            self.launch("prefill_attention")
        self.launch("lm_head", "softmax", "argmax")


@pytest.fixture
def engine(export):
    return Run(export)


@pytest.fixture
def split(read):
    """Kernels per step and the steps that a method finds in a builder's trace, without NVTX."""

    def find(export, method="graph", marker=None, **options):
        trace = read(export, without=[NVTX, *options.pop("without", ())], **options)
        steps = split_steps(trace, method=method, marker=marker)
        return kernels_of(trace, steps), steps

    return find


def kernels_of(trace, steps):
    placed = place(trace, steps)
    found = placed.work.join(placed.groups, on="group").group_by("step").len().sort("step")
    return dict(found.rows())


def members(trace, steps):
    """The kernels of each step, as sorted (start, end) pairs."""
    placed = place(trace, steps)
    rows = placed.work.join(placed.groups, on="group").sort("start_ns", "end_ns")
    groups = rows.group_by("step", maintain_order=True).agg(pl.struct("start_ns", "end_ns"))
    return {step: tuple((k["start_ns"], k["end_ns"]) for k in row) for step, row in groups.rows()}


@pytest.fixture
def both(tmp_path):
    """An export as it is and a copy of it without NVTX, as traces."""

    def find(path):
        bare = tmp_path / "bare.sqlite"
        shutil.copyfile(path, bare)
        with closing(sqlite3.connect(bare)) as database, database:
            database.execute(f"DROP TABLE {NVTX}")
        return kernelscope.read_export(path), kernelscope.read_export(bare)

    return find


def check_the_same_decode_steps(labelled, bare, method):
    steps, inferred = split_steps(labelled), split_steps(bare, method=method)
    by_step, found = members(labelled, steps), members(bare, inferred)
    decode = steps.frame.filter(pl.col("phase") == DECODE_PHASE)["step"]
    assert [found[step] for step in inferred.frame["step"]] == [by_step[step] for step in decode]


@pytest.mark.parametrize("method", ["graph", "marker"])
@pytest.mark.parametrize(
    "name",
    [
        "2023.4/qwen35-27b_b1",
        "2024.2/qwen35-27b_b1",
        "2024.2/llama-8b_graphlevel",
        "2025.3/qwen3-30b-a3b_fp8",
    ],
)
def test_without_labels_the_same_decode_steps_are_found(method, name, both):
    check_the_same_decode_steps(*both(exported(name)), method)


@pytest.mark.skipif(FOLDER is None, reason="KERNELSCOPE_TRACES does not name a folder")
@pytest.mark.parametrize(
    ("name", "methods"),
    [
        ("qwen35-27b_bf16_b1_in512_out32", ["graph", "marker"]),
        ("qwen35-27b_bf16_b8_in512_out16", ["graph", "marker"]),
        ("qwen35-27b_bf16_b1_in512_out6_eager", ["marker"]),
        ("qwen3-30b-a3b_fp8_b1_in512_out12", ["graph", "marker"]),
        ("llama-8b_bf16_b4_in256_out16_graphlevel.nsys2024", ["graph", "marker"]),
    ],
)
def test_the_full_captures_show_the_same_decode_steps(name, methods, both, tmp_path):
    maker = runpy.run_path(str(FIXTURES / "make_fixtures.py"))
    traces = both(maker["find_capture"](Path(FOLDER), name, tmp_path))
    for method in methods:
        check_the_same_decode_steps(*traces, method)


@pytest.mark.parametrize("name", ["qwen35-27b_eager", "qwen35-27b_b8_mixed", "qwen35-27b_b8_tail"])
@pytest.mark.parametrize("method", ["graph", "marker"])
def test_layers_of_one_or_two_steps_are_not_taken_for_steps(method, name, both):
    _, bare = both(exported(f"2023.4/{name}"))
    with pytest.raises(errors.StepError, match="finds no steps"):
        split_steps(bare, method=method)


def test_methods_are_tried_in_order():
    assert list(METHODS) == ["nvtx", "graph", "marker", "gaps"]


def test_labels_win(read, export):
    for _ in range(4):
        export.step(DECODE, [("a", 1)], graph=[("b", 1)] * 3)
    steps = split_steps(read(export))
    assert (steps.method, steps.declined) == ("nvtx", ())
    assert not steps.is_inferred


def test_the_first_method_that_finds_steps_wins_and_names_those_before(split, engine):
    engine.decode(5)
    kernels, steps = split(engine.export, "auto")
    assert steps.method == "graph"
    assert steps.is_inferred
    assert [one.method for one in steps.declined] == ["nvtx"]
    assert "no NVTX range is a step label" in steps.declined[0].reason
    assert kernels == dict.fromkeys(range(5), 25)


def test_all_reasons_are_kept_when_every_method_declines(split, export):
    export.kernel("a", 10, 5, export.call(LAUNCH, 1))
    kernels, steps = split(export, "auto")
    assert steps.method == "none"
    assert [one.method for one in steps.declined] == list(METHODS)
    assert all(one.reason in steps.evidence for one in steps.declined)
    assert kernels == {0: 1}


def test_none_looks_for_nothing(split, engine):
    engine.decode(5)
    kernels, steps = split(engine.export, "none")
    assert (steps.method, steps.declined, kernels) == ("none", (), {0: 125})


@pytest.mark.parametrize("method", METHODS)
def test_a_method_that_is_asked_for_and_declines_is_an_error_with_a_hint(method, split, export):
    export.kernel("a", 10, 5, export.call(LAUNCH, 1))
    with pytest.raises(errors.StepError, match=f"The method '{method}' finds no steps: ") as error:
        split(export, method)
    assert error.value.hint


def test_an_unknown_method_is_refused(split, export):
    export.kernel("a", 10, 5)
    with pytest.raises(errors.StepError, match=r"no method 'luck'.*auto, nvtx, graph"):
        split(export, "luck")


def test_a_marker_goes_with_its_method_only(split, export):
    export.kernel("a", 10, 5)
    with pytest.raises(errors.StepError, match="of no use to the method 'graph'"):
        split(export, "graph", "argmax")


def test_inferred_steps_follow_the_contract(split, engine):
    engine.decode(3)
    _, steps = split(engine.export)
    assert dict(steps.frame.schema) == dict(frames.STEPS)
    assert dict(steps.launches.schema) == dict(frames.LAUNCHES)
    row = steps.frame.row(2, named=True)
    assert (row["step"], row["label"], row["phase"]) == (2, "graph 6 replay 3", "decode")
    assert row["generation_requests"] is row["context_tokens"] is None
    assert row["start_ns"] < row["range_end_ns"]
    assert steps.evidence == (
        "3 recurring steps of 1 CUDA-graph replay per step with 20 kernels, known by 1 graph,"
        " on 1 thread"
    )


def test_a_prefill_before_the_steps_is_outside(split, engine):
    engine.prefill()
    engine.decode(4)
    kernels, _ = split(engine.export)
    assert kernels == {BEFORE_FIRST_STEP: 63} | dict.fromkeys(range(4), 25)


def test_a_prefill_between_steps_is_outside(split, engine):
    engine.decode(4)
    engine.prefill()
    engine.decode(3)
    kernels, _ = split(engine.export)
    assert kernels == {IN_NO_STEP: 63} | dict.fromkeys(range(7), 25)


def test_pieces_of_prefill_graphs_are_no_steps(split, engine):
    for _ in range(4):
        engine.prefill(2, pieces=range(10, 30))
        engine.decode(5)
    kernels, steps = split(engine.export)
    assert steps.frame.height == 20
    assert {kernels[step] for step in range(20)} == {25}


def test_a_small_full_prefill_graph_is_no_step(split, engine):
    # C18: a graph launch does not mean decode.
    for _ in range(3):
        engine.decode(1, bodies=[PREFILL_GRAPH])
        engine.decode(4)
    kernels, steps = split(engine.export)
    assert steps.frame.height == 12
    assert {kernels[step] for step in range(12)} == {25}


def test_several_replays_of_one_cycle_are_one_step(split, engine):
    # C16: a target and two drafts.
    engine.decode(6, bodies=[BODY, DRAFT, DRAFT])
    kernels, steps = split(engine.export)
    assert kernels == dict.fromkeys(range(6), 31)
    assert "3 CUDA-graph replays per step with 26 kernels" in steps.evidence


def test_a_pause_between_target_and_drafts_does_not_cut_the_step(split, engine):
    for _ in range(5):
        engine.decode(1, bodies=[BODY])
        engine.pause(200)
        engine.replay(DRAFT)
    kernels, _ = split(engine.export)
    assert kernels == dict.fromkeys(range(5), 28)


def test_two_replays_per_step_as_in_speculative_decoding(split, engine):
    engine.prefill()
    engine.decode(5, bodies=[BODY, DRAFT])
    kernels, _ = split(engine.export)
    assert kernels == {BEFORE_FIRST_STEP: 63} | dict.fromkeys(range(5), 28)


def test_pieces_between_eager_kernels_are_one_step(split, engine):
    # Speculative decoding on vLLM replays piecewise: 33 graphs per step, attention between.
    for _ in range(4):
        engine.pause()
        engine.launch("slot_mapping")
        for piece in range(10, 16):
            engine.replay(piece, 5)
            engine.launch("attention")
        engine.launch("lm_head", "argmax")
    kernels, steps = split(engine.export)
    assert kernels == dict.fromkeys(range(4), 39)
    assert "6 CUDA-graph replays per step" in steps.evidence


def test_batch_sizes_have_graphs_of_their_own(split, engine):
    engine.decode(4)
    engine.decode(3, bodies=[OTHER_BODY])
    kernels, steps = split(engine.export)
    assert kernels == dict.fromkeys(range(4), 25) | dict.fromkeys(range(4, 7), 23)
    assert steps.frame["label"][4] == "graph 18 replay 1"


def test_batch_sizes_in_turn_are_steps_of_their_own(split, engine):
    for _ in range(4):
        engine.decode(1)
        engine.decode(1, bodies=[OTHER_BODY])
    kernels, _ = split(engine.export)
    assert kernels == {step: 23 if step % 2 else 25 for step in range(8)}


def test_a_batch_size_met_once_is_a_step_after_others(split, engine):
    engine.decode(4)
    engine.decode(1, bodies=[OTHER_BODY])
    assert split(engine.export)[0] == dict.fromkeys(range(4), 25) | {4: 23}


def test_warm_up_replays_of_many_sizes_are_outside(split, engine):
    for graph in range(10, 14):
        engine.replay(graph, 20)
    engine.decode(4)
    kernels, _ = split(engine.export)
    assert kernels == {BEFORE_FIRST_STEP: 80} | dict.fromkeys(range(4), 25)


def test_what_was_launched_before_the_last_graph_was_captured_is_start_up(split, engine):
    engine.prefill()
    for _ in range(3):
        engine.replay(BODY)
        engine.call("cudaGraphInstantiateWithFlags_v11040", 5)
    engine.decode(4)
    kernels, _ = split(engine.export)
    assert kernels == {START_UP: 123} | dict.fromkeys(range(4), 25)


def test_a_graph_captured_while_serving_does_not_make_all_before_it_start_up(split, engine):
    engine.decode(6)
    engine.call("cudaGraphInstantiate_v12000", 5)
    engine.decode(3, bodies=[OTHER_BODY])
    assert split(engine.export)[1].frame.height == 9


def test_a_whole_run_gives_the_steps_of_its_profiled_part(split, engine):
    # Warm-up batches look like any other; the profiler's calls tell them apart.
    engine.decode(5)
    engine.call("cudaProfilerStart_v4000")
    engine.prefill()
    engine.decode(4)
    engine.call("cudaProfilerStop_v4000")
    engine.decode(2)
    kernels, _ = split(engine.export)
    assert kernels == {START_UP: 175, BEFORE_FIRST_STEP: 63} | dict.fromkeys(range(4), 25)


def test_a_profiled_part_without_launches_is_no_reason_to_see_nothing(split, engine):
    engine.decode(4)
    engine.call("cudaProfilerStart_v4000")
    assert split(engine.export)[1].frame.height == 4


def test_a_cut_last_replay_is_a_step_of_its_own(split, engine):
    engine.decode(4)
    engine.pause()
    engine.launch("slot_mapping", "positions")
    engine.replay(BODY, 7)
    kernels, _ = split(engine.export)
    assert kernels == dict.fromkeys(range(4), 25) | {4: 9}


def test_replays_recorded_as_a_whole_are_enough(split, export):
    # C12: no kernel of the graphs was recorded.
    for _ in range(5):
        export.step(DECODE, [("slot_mapping", 1)], replay=30, late=[("lm_head", 2)])
    kernels, steps = split(export)
    assert kernels == dict.fromkeys(range(5), 3)
    assert steps.evidence.startswith("5 recurring steps of 1 CUDA-graph replay per step, known")


def test_two_replays_are_not_enough(split, engine):
    engine.decode(2)
    with pytest.raises(errors.StepError, match="none of 1 CUDA graphs is replayed 3 times"):
        split(engine.export)


def test_a_range_that_was_never_closed_changes_nothing(split, read, export):
    for end in (20, 20, 20, None):
        export.step(DECODE, [("a", 1)], graph=[("b", 1)] * 4, late=[("c", 1)], end=end)
    labelled = read(export)
    assert kernels_of(labelled, split_steps(labelled)) == split(export)[0]


def test_a_step_split_over_two_ranges_is_one_step(split, read, export):
    # The range of the model closes before sampling, which has a range of its own.
    for number in range(4):
        export.step(DECODE, [("a", 1)], graph=[("b", 1)] * 4, late=[("c", 1)], end=10)
        export.range("sample_tokens", 110 + 100 * number, 130 + 100 * number)
    labelled = read(export)
    assert kernels_of(labelled, split_steps(labelled)) == split(export)[0]
    assert split(export)[0] == dict.fromkeys(range(4), 6)


@pytest.mark.parametrize("method", ["graph", "marker", "gaps"])
def test_without_api_rows_there_is_no_launch_order(method, split, engine):
    engine.decode(5)
    with pytest.raises(errors.StepError, match="no launching API call was recorded"):
        split(engine.export, method, without=[RUNTIME])


def test_kernels_without_an_api_row_are_in_no_step(split, engine):
    engine.decode(5)
    engine.export.kernel("lost", 1200, 1, 99_999)
    kernels, _ = split(engine.export)
    assert kernels == {NO_LAUNCH_CALL: 1} | dict.fromkeys(range(5), 25)


def mixed_run(engine):
    engine.prefill()
    engine.decode(4)
    engine.prefill(80)
    engine.decode(4, bodies=[OTHER_BODY])
    return engine.export


@pytest.mark.parametrize("method", ["graph", "marker"])
def test_neither_the_order_of_rows_nor_the_clock_matters(method, split, engine):
    export = mixed_run(engine)
    kernels, steps = split(export, method)
    for options in ({"shuffle": 1}, {"shuffle": 2}, {"shift_ns": 10**15}):
        again, same = split(export, method, **options)
        assert again == kernels
        assert same.evidence == steps.evidence
        assert same.frame["label"].to_list() == steps.frame["label"].to_list()


@pytest.mark.parametrize("method", ["graph", "marker"])
def test_processes_with_the_same_correlation_ids_are_kept_apart(method, split, export):
    Run(export, pid=1, correlation=100).decode(5)
    Run(export, pid=2, correlation=100, device=1).decode(4)
    kernels, steps = split(export, method)
    assert kernels == dict.fromkeys(range(9), 25)
    assert steps.frame["process"].n_unique() == 2
    assert "on 2 threads" in steps.evidence


def test_a_process_without_steps_is_outside(split, export):
    Run(export).decode(5)
    Run(export, pid=77).launch("a", "b")
    kernels, _ = split(export)
    assert sum(n for step, n in kernels.items() if step < 0) == 2


def test_a_marker_is_found_in_eager_mode(split, engine):
    engine.prefill()
    engine.eager(5)
    kernels, steps = split(engine.export, "marker")
    assert kernels == {BEFORE_FIRST_STEP: 63} | dict.fromkeys(range(5), 17)
    assert steps.evidence.startswith("5 steps of 17 kernels (median), each around ")
    assert steps.frame["label"].to_list()[:2] == ["marker 1", "marker 2"]


def test_without_copies_the_longest_run_of_equal_pieces_is_the_steps(split, engine):
    engine.eager(5, copy=False)
    assert split(engine.export, "marker")[0] == dict.fromkeys(range(5), 17)


def test_what_recurs_once_per_request_is_no_step(split, engine):
    for _ in range(6):
        engine.copy()
        engine.prefill(30)
        engine.eager(5)
    kernels, steps = split(engine.export, "marker")
    assert steps.frame.height == 30
    assert {kernels[step] for step in range(30)} == {17}


def test_the_layers_of_one_step_are_no_steps(split, engine):
    engine.eager(1, layers=40)
    with pytest.raises(errors.StepError, match="no kernel divides the launches"):
        split(engine.export, "marker")


def test_a_few_kernels_more_now_and_then_do_not_matter(split, engine):
    for number in range(9):
        engine.eager(1, layers=60)
        engine.launch(*["block_table"] * (number % 4 == 1))
    kernels, _ = split(engine.export, "marker")
    assert kernels == {step: 126 if step % 4 == 1 else 125 for step in range(9)}


def test_a_named_marker_is_used(split, engine):
    engine.prefill()
    engine.eager(4)
    kernels, steps = split(engine.export, "auto", "^lm_")
    assert steps.method == "marker"
    assert "lm_head" in steps.evidence
    assert kernels == {BEFORE_FIRST_STEP: 63} | dict.fromkeys(range(4), 17)


def test_a_named_marker_may_occur_several_times_per_step(split, engine):
    engine.eager(5)
    assert split(engine.export, "marker", "attention")[0] == dict.fromkeys(range(5), 17)


@pytest.mark.parametrize(
    ("pattern", "message"),
    [
        ("no such kernel", "no kernel's name matches"),
        ("prefill_1$", "1 launches match"),
        ("(", "is no regular expression"),
    ],
)
def test_a_marker_that_is_of_no_use_says_why(pattern, message, split, engine):
    engine.prefill()
    engine.eager(4)
    with pytest.raises(errors.StepError, match=message):
        split(engine.export, "marker", pattern)


def test_clear_gaps_on_the_device_part_steps(split, engine):
    for _ in range(8):
        engine.launch(*(f"kernel_{n}" for n in range(20)))
        engine.pause(500)
    kernels, steps = split(engine.export, "gaps")
    assert kernels == dict.fromkeys(range(8), 20)
    assert steps.evidence.startswith("8 equal steps between gaps of ")


def test_a_pause_between_requests_hides_no_gaps(split, engine):
    for number in range(12):
        engine.launch(*(f"kernel_{n}" for n in range(20)))
        engine.pause(50_000 if number % 4 == 3 else 500)
    assert split(engine.export, "gaps")[0] == dict.fromkeys(range(12), 20)


def test_gaps_of_all_lengths_part_nothing(split, engine):
    for number in range(60):
        engine.launch("kernel")
        engine.pause(10 + number)
    with pytest.raises(errors.StepError, match="no gaps on the device are 3 times as long"):
        split(engine.export, "gaps")


def test_pieces_with_as_many_kernels_but_other_times_are_no_steps(split, engine):
    # C12: a replay that was recorded as a whole, and as many eager kernels beside it.
    for _ in range(8):
        engine.launch("kernel", "kernel")
        engine.pause(500)
        engine.launch("kernel")
        engine.export.replay(engine.free, 400, engine.call(GRAPH_LAUNCH))
        engine.free += 400
        engine.pause(5000)
    kernels, steps = split(engine.export, "gaps")
    assert steps.frame.height == 8
    assert kernels == dict.fromkeys(range(8), 4)


def test_unequal_pieces_between_gaps_are_no_steps(split, engine):
    for number in range(9):
        engine.launch(*["kernel"] * (10 + 7 * number))
        engine.pause(800)
    with pytest.raises(errors.StepError, match="are unequal in kernels or time"):
        split(engine.export, "gaps")


def test_every_reason_is_a_negative_code():
    assert set(OUTSIDE) == set(range(-len(OUTSIDE), 0))


@given(st.data())
def test_steps_never_overlap_and_hold_their_bodies(data):
    count = data.draw(st.integers(8, 60))
    at = st.integers(0, count - 1)
    bodies = np.array(sorted(data.draw(st.sets(at, min_size=2, max_size=8))))
    foreign = np.array(sorted(data.draw(st.sets(at, max_size=5)) - set(bodies.tolist())), np.int64)
    pause = data.draw(st.lists(st.integers(0, 50), min_size=count + 1, max_size=count + 1))
    cut = cut_around(bodies, np.array(pause), foreign, data.draw(st.integers(0, 3)))
    if cut is None:
        return
    first, last = cut
    assert np.all((first <= bodies) & (bodies < last))
    assert np.all(last[:-1] <= first[1:])
    assert first[0] >= 0
    assert last[-1] <= count
    inside = np.concatenate([np.arange(*piece) for piece in zip(first, last, strict=True)])
    assert not np.isin(foreign, inside).any()
