"""Ranks side by side: medians, the slowest, and who waits for whom in collectives."""

import pytest

from export_builder import DECODE, ExportBuilder

REDUCE = "void vllm::cross_device_reduce_1stage<float, (int)2>(vllm::RankData *)"


@pytest.fixture
def two_ranks():
    """Rank 1 arrives 30 µs late at every all-reduce; both leave together, 5 µs after it came."""
    export = ExportBuilder("2025.3")
    for _ in range(2):
        for pid, multiply, reduce in ((10, 20, 35), (11, 50, 5)):
            export.step(DECODE, [("nvjet_a", multiply), (REDUCE, reduce)], pid=pid, tid=pid)
    return export


def test_waiting_ends_when_the_last_rank_arrives(summarize, two_ranks):
    rows = summarize(two_ranks).table("collective").to_dicts()
    assert [(row["rank"], row["steps"], row["collectives_per_step"]) for row in rows] == [
        (0, 2, 1.0),
        (1, 2, 1.0),
    ]
    assert [round(row["wait_ms"] * 1000, 6) for row in rows] == [30, 0]
    assert [round(row["transfer_ms"] * 1000, 6) for row in rows] == [5, 5]


def test_wait_and_transfer_add_up_to_the_collectives_time(summarize, two_ranks):
    for row in summarize(two_ranks).table("collective").to_dicts():
        assert row["wait_ms"] + row["transfer_ms"] == pytest.approx(row["communication_ms"])


def test_steps_in_which_ranks_differ_are_not_compared(summarize, two_ranks):
    two_ranks.step(DECODE, [("nvjet_a", 20), (REDUCE, 5)], pid=10, tid=10)
    two_ranks.step(DECODE, [("nvjet_a", 20)], pid=11, tid=11)
    assert set(summarize(two_ranks).table("collective")["steps"]) == {2}


def test_a_single_rank_has_no_one_to_wait_for(summarize, export):
    export.step(DECODE, [("nvjet_a", 20), (REDUCE, 5)])
    assert summarize(export).table("collective").is_empty()


def test_ranks_are_combined_by_median_and_slowest(summarize, two_ranks):
    rows = {row["category"]: row for row in summarize(two_ranks).table("rank").to_dicts()}
    gemm = rows["gemm"]
    assert gemm["median_kernel_ms"] * 1000 == pytest.approx(35)
    assert gemm["slowest_kernel_ms"] * 1000 == pytest.approx(50)
    assert (gemm["slowest_rank"], gemm["ranks"]) == (1, 2)


def test_the_report_says_how_ranks_are_combined(summarize, two_ranks):
    import kernelscope

    text = kernelscope.render(summarize(two_ranks))
    assert "across ranks" in text
    assert "rank 0 decode: 1 collective(s) a step" in text.replace("\n", " ")
