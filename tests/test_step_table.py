"""One row per step: what it did, how long it took, and whether it counts."""

import pytest

from export_builder import (
    DECODE,
    EMPTY,
    GRAPH_LAUNCH,
    LAUNCH,
    MIXED,
    PREFILL,
    TID,
)

DETAILED = "execute_{0}_context_0(sq0sk0sqsq0sqsk0)_generation_{1}(sq{0}sk9999sqsq{2}sqsk9)"


@pytest.fixture
def table(summarize):
    """The step table of a builder's trace, as a list of rows."""
    return lambda export, **options: summarize(export, **options).table("step").to_dicts()


@pytest.fixture
def statuses(table):
    return lambda export, **options: [row["status"] for row in table(export, **options)]


def decode_steps(export, count, **options):
    for _ in range(count):
        export.step(DECODE, [("nvjet_a", 5), ("rms_norm_kernel", 2)], **options)
    return export


def test_each_phase_keeps_its_steps(export, table):
    for label in (PREFILL, MIXED, DECODE):
        export.step(label, [("nvjet_a", 5)])
    assert [(row["phase"], row["status"]) for row in table(export)] == [
        ("prefill", "complete"),
        ("mixed", "complete"),
        ("decode", "complete"),
    ]


def test_an_empty_label_counts_in_no_average(export, statuses):
    export.step(EMPTY, [("nvjet_a", 5)])
    export.step(DECODE, [("nvjet_a", 5)])
    assert statuses(export) == ["empty", "complete"]


def test_a_step_without_kernels_is_kept_apart(export, statuses):
    decode_steps(export, 2)
    export.step(DECODE)
    decode_steps(export, 1)
    assert statuses(export) == ["complete", "complete", "no kernels", "complete"]


# A last step that the end of the capture cut: three signs of it


@pytest.mark.parametrize("end", [None, 2_000 - 300])
def test_a_last_step_whose_range_is_open_is_incomplete(end, export, statuses):
    # nsys exports an unfinished range with the end of the capture (2,000 µs) as its end.
    decode_steps(export.window(2_000), 2)
    decode_steps(export, 1, end=end)
    assert statuses(export) == ["complete", "complete", "incomplete"]


def test_a_last_range_that_closed_is_complete(export, statuses):
    assert statuses(decode_steps(export.window(2_000), 3)) == ["complete"] * 3


def test_an_open_range_is_seen_in_shifted_times_too(export, statuses):
    decode_steps(export.window(2_000), 2)
    decode_steps(export, 1, end=2_000 - 300)
    shifted = statuses(export, shift_ns=1_700_000_000_000_000_000)
    assert shifted == ["complete", "complete", "incomplete"]


def test_a_last_step_with_launches_that_left_no_work_is_incomplete(export, statuses):
    decode_steps(export, 3)
    export.call(LAUNCH, 350)
    assert statuses(export) == ["complete", "complete", "incomplete"]


def test_a_last_step_whose_replay_left_no_kernels_is_incomplete(export, statuses):
    for _ in range(3):
        export.step(DECODE, [("rms_norm_kernel", 1)], graph=[("nvjet_a", 5)])
    export.call(GRAPH_LAUNCH, 350)
    assert statuses(export) == ["complete", "complete", "incomplete"]


def test_a_last_step_with_fewer_kernels_than_its_like_is_incomplete(export, statuses):
    decode_steps(export, 2)
    export.step(DECODE, [("nvjet_a", 5)])
    assert statuses(export) == ["complete", "complete", "incomplete"]


def test_a_last_step_without_another_of_its_shape_is_not_judged_by_its_size(export, statuses):
    export.step("execute_context_0(0)_generation_8(8)", [("nvjet_a", 5), ("nvjet_b", 5)])
    export.step(DECODE, [("nvjet_a", 5)])
    assert statuses(export) == ["complete", "complete"]


def test_the_last_step_with_work_is_judged_even_if_empty_labels_follow(export, statuses):
    # The first capture in shared/traces ends with a range that holds no kernel.
    decode_steps(export, 2)
    export.step(DECODE, [("nvjet_a", 5)])
    export.step(DECODE)
    assert statuses(export) == ["complete", "complete", "incomplete", "no kernels"]


def test_a_step_in_the_middle_is_not_incomplete(export, statuses):
    decode_steps(export, 1)
    export.step(DECODE, [("nvjet_a", 5)])
    decode_steps(export, 1)
    assert statuses(export) == ["complete"] * 3


def test_each_thread_has_its_own_last_step(export, statuses):
    for tid in (TID, TID + 1):
        decode_steps(export, 2, tid=tid)
        export.step(DECODE, [("nvjet_a", 5)], tid=tid)
    assert statuses(export) == ["complete", "complete", "incomplete"] * 2


# A resumed request whose prompt is computed again


def test_hundreds_of_tokens_for_one_request_are_a_recompute(export, statuses):
    decode_steps(export, 3)
    export.step("execute_context_0(0)_generation_1(700)", [("nvjet_a", 50)])
    decode_steps(export, 1)
    assert statuses(export) == ["complete"] * 3 + ["recompute", "complete"]


def test_one_long_request_among_many_is_a_recompute(export, statuses):
    # 8 requests, 7 with a token each and one with 301: 38 tokens a request on average.
    many = "execute_context_0(0)_generation_8({})"
    for tokens in (8, 8, 308, 8):
        export.step(many.format(tokens), [("nvjet_a", 5)])
    assert statuses(export) == ["complete", "complete", "recompute", "complete"]


def test_a_recompute_hidden_in_a_large_batch_is_found(export, statuses):
    # 256 requests: 255 with one token and one with 513; on average only 3 tokens a request.
    many = "execute_context_0(0)_generation_256({})"
    for tokens in [256] * 10 + [768, 256]:
        export.step(many.format(tokens), [("nvjet_a", 5)])
    assert statuses(export) == ["complete"] * 10 + ["recompute", "complete"]


def test_the_detailed_label_shows_a_long_request_by_its_squares(export, statuses):
    # 256 requests of 3 tokens each (speculative decoding): squares 256 * 9. Then one of 300.
    export.step(DETAILED.format(768, 256, 2_304), [("nvjet_a", 5)])
    export.step(DETAILED.format(1_065, 256, 255 * 9 + 300**2), [("nvjet_a", 5)])
    export.step(DETAILED.format(768, 256, 2_304), [("nvjet_a", 5)])
    assert statuses(export) == ["complete", "recompute", "complete"]


@pytest.mark.parametrize("tokens", [1, 2, 4, 9])
def test_speculative_decoding_is_no_recompute(tokens, export, statuses):
    for _ in range(3):
        export.step(f"execute_context_0(0)_generation_1({tokens})", [("nvjet_a", 5)])
    assert statuses(export) == ["complete"] * 3


def test_speculation_of_a_large_batch_is_no_recompute(export, statuses):
    for _ in range(3):
        export.step("execute_context_0(0)_generation_128(512)", [("nvjet_a", 5)])
    assert statuses(export) == ["complete"] * 3


def test_a_prefill_of_many_tokens_is_no_recompute(export, statuses):
    export.step("execute_context_1(8192)_generation_0(0)", [("nvjet_a", 5)])
    decode_steps(export, 1)
    assert statuses(export) == ["complete", "complete"]


# Times


def test_span_is_first_start_to_last_end(export, table):
    export.step(DECODE, [("nvjet_a", 5)])
    export.kernel("nvjet_b", 140, 10, export.call(LAUNCH, 110))
    (row,) = table(export)
    assert row["span_ns"] == (150 - 110) * 1000  # GPU work begins 10 µs after the label


def test_wall_is_first_kernel_to_the_next_steps_first_kernel(export, table):
    export.step(DECODE, [("nvjet_a", 5)], lag=10)
    export.step(DECODE, [("nvjet_a", 5)], lag=30)
    export.step(DECODE, [("nvjet_a", 5)], lag=20)
    # First kernels at 110, 230 and 320 µs; nothing follows the last.
    assert [row["wall_ns"] for row in table(export)] == [120_000, 90_000, None]


def test_the_gap_is_idle_time_before_the_next_step(export, table):
    export.step(DECODE, [("nvjet_a", 60)])
    export.step(DECODE, [("nvjet_a", 5)])
    # 110 + 60 to 210 µs.
    assert [row["gap_ns"] for row in table(export)] == [40_000, None]


def test_steps_that_overlap_on_the_gpu_have_no_negative_gap(export, table):
    export.step(DECODE, [("nvjet_a", 150)])
    export.step(DECODE, [("nvjet_a", 5)])
    assert table(export)[0]["gap_ns"] == 0


def test_an_empty_step_is_no_boundary_of_a_wall_time(export, table):
    export.step(DECODE, [("nvjet_a", 5)])
    export.step(EMPTY)
    export.step(DECODE, [("nvjet_a", 5)])
    assert [row["wall_ns"] for row in table(export)] == [200_000, None, None]


def test_a_pause_between_requests_is_no_step_time(export, table):
    decode_steps(export, 4)
    decode_steps(export, 4, at=None)  # walls of 100 µs
    export.step(DECODE, [("nvjet_a", 5), ("rms_norm_kernel", 2)], at=5_000)
    rows = table(export)
    assert [row["is_pause"] for row in rows] == [False] * 7 + [True, False]
    assert rows[7]["wall_ns"] is None
    assert rows[7]["gap_ns"] == (5_010 - 817) * 1000  # 810 + 7 µs was the last kernel's end
    assert rows[7]["status"] == "complete"


def test_a_gap_of_a_few_steps_is_no_pause(export, table):
    decode_steps(export, 8)
    export.step(DECODE, [("nvjet_a", 5), ("rms_norm_kernel", 2)], at=1_500)
    assert not any(row["is_pause"] for row in table(export))


def test_counts_of_calls_and_graphs(run_export, table):
    decode = table(run_export)[1]
    # One launch, one graph of two kernels, one late launch.
    assert (decode["kernels"], decode["launch_calls"], decode["graph_launches"]) == (4, 3, 1)


def test_without_labels_the_trace_is_one_row(export, table):
    export.kernel("nvjet_a", 10, 5, export.call(LAUNCH, 1))
    export.kernel("nvjet_b", 20, 7)
    (row,) = table(export)
    assert (row["phase"], row["kernels"], row["span_ns"]) == ("trace", 2, 17_000)
    assert row["wall_ns"] is None
