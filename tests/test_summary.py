"""Every figure of a summary, on traces small enough to add up by hand."""

import polars as pl
import pytest

import kernelscope
from export_builder import (
    DECODE,
    EMPTY,
    GRAPH_LAUNCH,
    LAUNCH,
    MIXED,
    PREFILL,
    RUNTIME,
    ExportBuilder,
)
from kernelscope.errors import PhaseNotFound

EIGHT = "execute_context_0(0)_generation_8(8)"


@pytest.fixture
def decode(summarize, run_export):
    """The decode phase of ``run_export``: three steps, kernels 1 + 5 + 2 + 2 µs each.

    First kernels at 210, 310 and 410 µs, so walls of 100 µs; GPU work is without gaps.
    """
    return summarize(run_export).phase("decode")


def categories(summary, phase="decode", rank=0):
    table = summary.table("category")
    mine = table.filter((pl.col("phase") == phase) & (pl.col("rank") == rank))
    return {row["category"]: row for row in mine.to_dicts()}


# The figures of a phase


def test_steps_and_kernels_per_step(decode):
    assert decode.steps == 3
    counts = decode.kernels_per_step
    assert (counts.median, counts.min, counts.max) == (4, 4, 4)


def test_wall_is_start_to_start(decode):
    wall = decode.wall_ms
    assert wall.median == pytest.approx(0.100)
    assert (wall.min, wall.max, wall.p10, wall.p90) == pytest.approx((0.1, 0.1, 0.1, 0.1))


def test_span_kernel_time_busy_and_idle(decode):
    assert decode.span_ms == pytest.approx(0.010)
    assert decode.kernel_ms == pytest.approx(0.010)
    assert decode.busy_ms == pytest.approx(0.010)
    assert decode.idle_ms == pytest.approx(0)


def test_gap_is_the_idle_time_to_the_next_step(decode):
    assert decode.gap_ms == pytest.approx(0.090)


def test_calls_that_start_work_count_a_graph_launch_once(decode):
    assert decode.launch_calls_per_step == 3
    assert decode.graph_launches_per_step == 1


def test_tokens_per_second_are_generated_tokens_over_wall_time(decode):
    assert decode.tokens_per_s == pytest.approx(1 / 100e-6)


def test_prefill_has_prompt_tokens_and_generates_none(summarize, run_export):
    prefill = summarize(run_export).phase("prefill")
    assert prefill.tokens_per_s is None
    assert prefill.prompt_tokens_per_s == pytest.approx(512 / 100e-6)


def test_a_batch_generates_a_token_per_request(summarize, export):
    for _ in range(3):
        export.step(EIGHT, [("nvjet_a", 5)])
    phase = summarize(export).phase("decode")
    assert phase.requests_per_step.median == 8
    assert phase.tokens_per_s == pytest.approx(8 / 100e-6)


def test_idle_is_the_span_without_any_kernel(summarize, export):
    # 110-120 and 115-130 overlap, then nothing until 140-145.
    export.range(DECODE, 100, 105)
    for start, duration in ((110, 10), (115, 15), (140, 5)):
        export.kernel("nvjet_a", start, duration, export.call(LAUNCH, 101))
    phase = summarize(export).phase("decode")
    assert phase.span_ms == pytest.approx(0.035)
    assert phase.kernel_ms == pytest.approx(0.030)
    assert phase.busy_ms == pytest.approx(0.025)
    assert phase.idle_ms == pytest.approx(0.010)
    assert phase.overlap_ms == pytest.approx(0.005)


def test_spread_and_counts_over_uneven_steps(summarize, export):
    # Walls 100, 150, 200, 250 µs; 1, 2, 3, 2 and 9 kernels.
    at = 100
    for kernels, wall in ((1, 100), (2, 150), (3, 200), (2, 250), (9, 0)):
        export.step(DECODE, [("nvjet_a", 1)] * kernels, at=at)
        at += wall
    phase = summarize(export).phase("decode")
    counts, wall = phase.kernels_per_step, phase.wall_ms
    assert (counts.median, counts.min, counts.max) == (2, 1, 9)
    assert (wall.median, wall.min, wall.max) == pytest.approx((0.175, 0.1, 0.25))
    assert (wall.p10, wall.p90) == pytest.approx((0.115, 0.235))  # linear interpolation
    assert phase.kernel_ms == pytest.approx(0.017 / 5)


def test_a_single_step_has_no_wall_time(summarize, export):
    export.step(DECODE, [("nvjet_a", 5)])
    phase = summarize(export).phase("decode")
    assert phase.wall_ms is None
    assert phase.tokens_per_s is None


def test_the_largest_single_kernel_is_named(summarize, export):
    # "many" takes more time in all, but "one" is the largest kernel.
    export.step(DECODE, [("nvjet_many", 4)] * 4 + [("rms_norm_kernel", 9)])
    largest = summarize(export).phase("decode").largest_kernel
    assert (largest.name, largest.category) == ("rms_norm_kernel", "norm")
    assert largest.duration_ms == pytest.approx(0.009)
    assert largest.share == pytest.approx(9 / 25)


def test_memory_stands_beside_the_kernels(summarize, run_export):
    plain = summarize(run_export)
    for at in (205, 305, 405):
        copy = run_export.call("cudaMemcpyAsync_v3020", at)
        run_export.copy(at + 20, 3, copy, size=100)
    run_export.memset(225, 6, run_export.call("cudaMemsetAsync_v3020", 206))
    with_memory = summarize(run_export)
    memory = with_memory.phase("decode").memory
    assert (memory.copies_per_step, memory.copied_bytes) == (1, 100)
    assert memory.copy_ms == pytest.approx(0.003)
    assert memory.sets_per_step == pytest.approx(1 / 3)
    assert memory.set_ms == pytest.approx(0.002)
    assert with_memory.table("category").equals(plain.table("category"))
    assert with_memory.phase("decode").busy_ms == plain.phase("decode").busy_ms


# Categories and shares


def test_categories_have_kernels_time_and_share_per_step(summarize, run_export):
    found = categories(summarize(run_export))
    assert set(found) == {"gemm", "norm"}
    gemm, norm = found["gemm"], found["norm"]
    assert (gemm["kernels_per_step"], norm["kernels_per_step"]) == (2, 2)
    assert gemm["kernel_ms"] == pytest.approx(0.007)  # 5 + 2 of 10
    assert (gemm["share"], norm["share"]) == pytest.approx((0.7, 0.3))
    assert (gemm["family"], norm["family"]) == ("gemm", "norm")


@pytest.mark.parametrize("by", ["category", "family", "kernel"])
def test_shares_of_a_phase_add_up_to_one(by, summarize, run_export):
    run_export.kernel("strange", 230, 3, run_export.call(LAUNCH, 205))
    shares = summarize(run_export).table(by).group_by("phase").agg(pl.col("share").sum())
    assert shares["share"].to_list() == pytest.approx([1, 1])


@pytest.mark.parametrize("by", ["category", "family", "kernel"])
def test_times_of_a_phase_add_up_to_its_kernel_time(by, summarize, run_export):
    summary = summarize(run_export)
    for phase in summary.phases:
        rows = summary.table(by).filter(pl.col("phase") == phase.phase)
        assert rows["kernel_ms"].sum() == pytest.approx(phase.kernel_ms)
        assert rows["kernels_per_step"].sum() == pytest.approx(4 if phase.phase == "decode" else 2)


def test_rows_come_largest_first(summarize, run_export):
    for by in ("category", "family", "kernel"):
        for _, rows in summarize(run_export).table(by).group_by("phase"):
            assert rows["kernel_ms"].is_sorted(descending=True)


def test_what_no_rule_decides_is_unknown_and_named(summarize, export):
    export.step(DECODE, [("nvjet_a", 6), ("zzz_new_thing", 2)])
    summary = summarize(export)
    assert categories(summary)["unknown"]["share"] == pytest.approx(0.25)
    (warning,) = [w for w in summary.warnings if "unknown" in w]
    assert "25.00%" in warning
    assert "zzz_new_thing" in warning


def test_the_deciding_rule_stays_with_each_kernel(summarize, run_export):
    rules = {rule.id: rule.category for rule in kernelscope.load_rules().rules}
    table = summarize(run_export).table("kernel")
    assert [rules[rule_id] for rule_id in table["rule_id"]] == table["category"].to_list()


def test_a_splitk_reduction_without_generated_kernels_is_summarized(summarize, export):
    export.step(DECODE, [("nvjet_a", 5), ("splitKreduce_kernel", 1)])
    assert categories(summarize(export))["splitk_reduce"]["kernels_per_step"] == 1


@pytest.mark.parametrize("name", ["[a]", "(a)", "<a>", "..."])
def test_no_kernel_is_shown_without_a_name(name, summarize, export):
    export.step(DECODE, [(name, 5)])
    assert summarize(export).table("kernel")["short_name"].item()


# What is in no average


def test_phases_are_never_mixed(summarize, export):
    for label, duration in ((PREFILL, 50), (MIXED, 30), (DECODE, 5), (DECODE, 5)):
        export.step(label, [("nvjet_a", duration)])
    summary = summarize(export)
    assert {p.phase: (p.steps, p.kernel_ms) for p in summary.phases} == {
        "prefill": (1, pytest.approx(0.050)),
        "mixed": (1, pytest.approx(0.030)),
        "decode": (2, pytest.approx(0.005)),
    }


def test_an_incomplete_step_is_counted_and_in_no_average(summarize, export):
    for _ in range(2):
        export.step(DECODE, [("nvjet_a", 5), ("nvjet_a", 5)])
    export.step(DECODE, [("nvjet_a", 5)])
    summary = summarize(export)
    phase = summary.phase("decode")
    assert (phase.steps, phase.incomplete_steps, phase.excluded_steps) == (2, 1, 0)
    assert phase.kernel_ms == pytest.approx(0.010)
    (left,) = summary.excluded
    assert (left.phase, left.steps, left.kernels) == ("decode", 1, 1)
    assert "cut by the end of the capture" in left.reason


def test_a_recomputed_step_is_counted_and_in_no_decode_average(summarize, export):
    for label, duration in ((DECODE, 5), ("execute_context_0(0)_generation_1(700)", 90)):
        export.step(label, [("nvjet_a", duration)])
    export.step(DECODE, [("nvjet_a", 5)])
    summary = summarize(export)
    phase = summary.phase("decode")
    assert (phase.steps, phase.excluded_steps) == (2, 1)
    assert phase.kernel_ms == pytest.approx(0.005)
    assert "preempted" in summary.excluded[0].reason


def test_empty_steps_are_counted_and_in_no_average(summarize, export):
    export.step(EMPTY)
    export.step(DECODE, [("nvjet_a", 5)])
    summary = summarize(export)
    assert [(p.phase, p.steps) for p in summary.phases] == [("decode", 1)]
    assert [(left.phase, left.steps) for left in summary.excluded] == [("empty", 1)]


def test_kernels_outside_are_counted_by_reason(summarize, run_export):
    run_export.kernel("nvjet_a", 20, 6, run_export.call(LAUNCH, 10))
    run_export.kernel("nvjet_a", 230, 4)
    run_export.kernel("nvjet_a", 330, 2, run_export.call(LAUNCH, 320, tid=9))
    summary = summarize(run_export)
    assert [(left.reason, left.kernels, left.kernel_ms) for left in summary.outside] == [
        ("launched before the first step", 1, pytest.approx(0.006)),
        ("launched by a thread without steps", 1, pytest.approx(0.002)),
        ("without a launching call in the capture", 1, pytest.approx(0.004)),
    ]
    assert any("3 of 17 kernels are in no step" in warning for warning in summary.warnings)


def test_steps_excluded_and_outside_are_all_kernels(summarize, run_export):
    run_export.kernel("nvjet_a", 20, 6, run_export.call(LAUNCH, 10))
    run_export.kernel("nvjet_a", 230, 4)
    run_export.step(EMPTY, [("nvjet_a", 5)])
    run_export.step("execute_context_0(0)_generation_1(700)", [("nvjet_a", 5)])
    run_export.step(DECODE, [("nvjet_a", 5)])
    summary = summarize(run_export)
    complete = summary.table("step").filter(pl.col("status") == "complete")
    parts = complete["kernels"].sum()
    parts += sum(left.kernels for left in (*summary.excluded, *summary.outside))
    assert parts == 14 + 5 == sum(rank.kernels for rank in summary.ranks)


def test_impossible_times_are_left_out_and_told(summarize, run_export):
    expected = summarize(run_export).table("category")
    run_export.kernel("nvjet_a", 0, 0)
    run_export.kernel("nvjet_a", 500, -20)
    summary = summarize(run_export)
    assert summary.table("category").equals(expected)
    assert any("impossible times" in w and w.startswith("2 ") for w in summary.warnings)


def test_a_pause_is_told_and_is_in_no_wall_time(summarize, export):
    for _ in range(8):
        export.step(DECODE, [("nvjet_a", 5)])
    export.step(DECODE, [("nvjet_a", 5)], at=60_000)
    summary = summarize(export)
    assert summary.phase("decode").wall_ms.max == pytest.approx(0.1)
    assert any("pause" in warning for warning in summary.warnings)


def test_steps_of_one_shape_with_other_counts_are_told(summarize, export):
    for kernels in (2, 2, 3, 2, 2):
        export.step(DECODE, [("nvjet_a", 1)] * kernels)
    warnings = summarize(export).warnings
    assert any(
        "1 of 5 decode steps of one shape differ in kernel count" in warning for warning in warnings
    )


def test_a_clean_run_has_no_warnings(summarize, run_export):
    assert summarize(run_export).warnings == ()


# Replays that were recorded as a whole


@pytest.fixture
def opaque(summarize, export):
    """Decode steps of one 90 µs replay and one 10 µs kernel."""
    export.graph_mode("Graph").step(PREFILL, [("nvjet_a", 5)])
    for _ in range(3):
        export.step(DECODE, [("rms_norm_kernel", 10)], replay=80)
    return summarize(export)


def test_a_replays_time_is_known_as_cuda_graph(opaque):
    graph = categories(opaque)["cuda_graph"]
    assert graph["kernels_per_step"] == 1
    assert graph["kernel_ms"] == pytest.approx(0.080)
    assert graph["share"] == pytest.approx(80 / 90)
    assert opaque.phase("decode").busy_ms == pytest.approx(0.090)


def test_a_replay_is_no_kernel(opaque):
    assert opaque.phase("decode").kernels_per_step.median == 1
    assert opaque.ranks[0].kernels == 4


def test_what_is_inside_has_no_share_and_the_option_is_named(opaque):
    assert opaque.phase("decode").opaque_share == pytest.approx(80 / 90)
    assert opaque.phase("prefill").opaque_share == 0
    (warning,) = [w for w in opaque.warnings if "replays" in w]
    assert "3 CUDA graph replays" in warning
    assert "--cuda-graph-trace=node" in warning


def test_an_opaque_replay_is_never_the_largest_kernel(opaque):
    assert opaque.phase("decode").largest_kernel.name == "rms_norm_kernel"


def test_steps_that_are_only_replays_are_complete_steps(summarize, export):
    for _ in range(3):
        export.step(DECODE, replay=80)
    phase = summarize(export).phase("decode")
    assert phase.steps == 3
    assert phase.kernel_ms == pytest.approx(0.080)
    assert phase.largest_kernel is None


def test_replays_without_recorded_time_are_told_and_give_no_zero(summarize, export):
    # CUPTI: start = end = 0 means that no time was collected.
    export.step(PREFILL, [("nvjet_a", 5)])
    for at in (200, 300):
        export.range(DECODE, at, at + 20)
        export.replay(0, 0, export.call(GRAPH_LAUNCH, at + 1))
    summary = summarize(export)
    assert [p.phase for p in summary.phases] == ["prefill"]
    assert any("replays" in w and w.startswith("2 ") for w in summary.warnings)


# Several processes and GPUs


@pytest.fixture
def two_ranks(summarize):
    """Two workers, each with its GPU as device 0, the same correlation ids in both."""
    export = ExportBuilder("2025.3").gpu(0, "first").gpu(1, "second")
    for number, pid in enumerate((10, 20)):
        export.row("TARGET_INFO_CUDA_DEVICE", gpuId=number, cudaId=0, pid=pid)
        export._correlation = 100
        for _ in range(3):
            kernels = [("nvjet_a", 10), ("ncclDevKernel_AllReduce", 6 - 4 * number)]
            export.step(DECODE, kernels, pid=pid)
    return summarize(export)


def test_each_rank_has_its_own_steps(two_ranks):
    assert [(p.rank, p.phase, p.steps) for p in two_ranks.phases] == [
        (0, "decode", 3),
        (1, "decode", 3),
    ]


def test_times_of_ranks_are_never_added(two_ranks):
    assert two_ranks.phase("decode", 0).kernel_ms == pytest.approx(0.016)
    assert two_ranks.phase("decode", 1).kernel_ms == pytest.approx(0.012)
    assert categories(two_ranks, rank=1)["communication"]["kernel_ms"] == pytest.approx(0.002)
    assert categories(two_ranks, rank=1)["communication"]["share"] == pytest.approx(1 / 6)


def test_ranks_name_their_process_and_gpu(two_ranks):
    assert [(r.rank, r.pid, r.device, r.gpu) for r in two_ranks.ranks] == [
        (0, 10, 0, "first"),
        (1, 20, 0, "second"),
    ]
    assert any("2 ranks" in warning for warning in two_ranks.warnings)


def test_memory_is_told_of_the_rank_that_made_it(summarize, export):
    # Without labels the whole trace is one unit, but still one per rank.
    for pid in (10, 20):
        export.kernel("nvjet_a", 10, 5, export.call(LAUNCH, 1, pid=pid), pid=pid)
    export.copy(20, 3, export.call("cudaMemcpyAsync_v3020", 2, pid=10), pid=10)
    summary = summarize(export)
    copies = [summary.phase("trace", rank).memory.copies_per_step for rank in (0, 1)]
    assert copies == [1, 0]


# Without labels


@pytest.fixture
def unlabelled(export):
    export.kernel("nvjet_a", 10, 5, export.call(LAUNCH, 1))
    export.kernel("rms_norm_kernel", 20, 5)
    return export


def test_without_labels_the_whole_trace_is_summarized_and_said(summarize, unlabelled):
    summary = summarize(unlabelled)
    assert summary.step_method == "none"
    assert [(p.phase, p.steps) for p in summary.phases] == [("trace", 1)]
    assert summary.phase("trace").kernels_per_step.median == 2
    assert summary.phase("trace").idle_ms == pytest.approx(0.005)
    assert any(warning.startswith("No steps") for warning in summary.warnings)


def test_without_labels_no_decode_is_claimed(summarize, unlabelled):
    summary = summarize(unlabelled)
    with pytest.raises(KeyError, match="no complete decode step"):
        summary.phase("decode")
    with pytest.raises(PhaseNotFound, match=r"no complete decode step\. .*trace"):
        summary.only("decode")


@pytest.mark.parametrize("without", [[RUNTIME], [RUNTIME, "NVTX_EVENTS"]])
def test_an_export_without_api_calls_is_summarized(without, summarize, run_export):
    summary = summarize(run_export, without=without)
    assert sum(rank.kernels for rank in summary.ranks) == 14
    assert summary.warnings


def test_labels_without_any_complete_step_say_so(summarize, export):
    export.step(DECODE)
    export.kernel("nvjet_a", 10, 5, export.call(LAUNCH, 1))
    summary = summarize(export)
    assert summary.phases == ()
    assert any("No step is complete" in warning for warning in summary.warnings)


# What must not matter


@pytest.mark.parametrize("seed", range(3))
def test_the_order_of_rows_does_not_matter(seed, summarize, run_export):
    run_export.kernel("nvjet_a", 20, 6, run_export.call(LAUNCH, 10))
    assert numbers(summarize(run_export, shuffle=seed)) == numbers(summarize(run_export))


@pytest.mark.parametrize("shift_ns", [-90_000, 1, 1_700_000_000_000_000_000])
@pytest.mark.parametrize("version", ["2023.4", "2026.2"])
def test_moving_every_moment_changes_nothing(shift_ns, version, summarize):
    export = ExportBuilder(version).window(2_000)
    for _ in range(3):
        export.step(DECODE, [("nvjet_a", 5)], graph=[("rms_norm_kernel", 2)])
    export.step(DECODE, [("nvjet_a", 5)], end=2_000 - 400)
    assert numbers(summarize(export, shift_ns=shift_ns)) == numbers(summarize(export))


def numbers(summary):
    plain = summary.to_dict()
    for rank in plain["ranks"]:
        rank["kernel_ms"] = round(rank["kernel_ms"], 9)
    return {key: plain[key] for key in ("ranks", "phases", "excluded_steps", "outside_steps")}


def test_summarize_takes_a_path_or_a_trace(write, run_export):
    path = write(run_export)
    of_trace = kernelscope.summarize(kernelscope.read_export(path))
    assert numbers(kernelscope.summarize(path)) == numbers(of_trace)
    assert numbers(kernelscope.summarize(str(path))) == numbers(of_trace)


# Ways to get at it


def test_only_keeps_one_phase_in_every_table(summarize, run_export):
    decode = summarize(run_export).only("decode")
    assert [phase.phase for phase in decode.phases] == ["decode"]
    for name, table in decode.tables.items():
        assert "phase" not in table.columns or set(table["phase"]) <= {"decode"}, name


def test_a_phase_that_is_not_there_names_those_that_are(summarize, run_export):
    with pytest.raises(KeyError, match=r"mixed.*decode \(rank 0\), prefill \(rank 0\)"):
        summarize(run_export).phase("mixed")


def test_an_unknown_table_is_a_key_error(summarize, run_export):
    with pytest.raises(KeyError):
        summarize(run_export).table("colour")


@pytest.mark.parametrize("by", ["category", "family", "kernel", "step"])
def test_tables_convert_to_pandas_and_arrow(by, summarize, run_export):
    summary = summarize(run_export)
    table = summary.table(by)
    assert list(summary.to_pandas(by).columns) == table.columns
    arrow = summary.to_arrow(by)
    assert arrow.num_rows == table.height
    assert arrow.schema.metadata[b"exporter"] == b"2024.2.3.38"
