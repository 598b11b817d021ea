"""Whole reports on real captures, compared as text; and the counts behind them, by plain SQL.

A golden file says that nothing changed, not that it is right. So the numbers that matter are
counted again below with sqlite3 alone (:mod:`plain_sql`). When the reports change on purpose:
``pytest tests/test_golden.py --renew-golden``, then read the difference (tests/golden/README.md).
"""

from __future__ import annotations

import functools
import json
import re
from pathlib import Path

import pytest
from click.testing import CliRunner

import exports
import kernelscope
import plain_sql
from kernelscope import errors
from kernelscope.cli import main

GOLDEN = Path(__file__).parent / "golden"

NODE_LEVEL = {
    "2023.4/qwen35-27b_b1": {"prefill": [1596], "decode": [1023] * 4},
    "2024.2/qwen35-27b_b1": {"prefill": [1596], "decode": [1023] * 4},
    "2023.4/qwen35-27b_b8_mixed": {"mixed": [1887], "decode": [1023]},
    "2023.4/qwen35-27b_b8_tail": {"decode": [1023, 1033]},
    "2023.4/qwen35-27b_eager": {"decode": [2537] * 2},
    "2025.3/qwen3-30b-a3b_fp8": {"prefill": [1125], "decode": [1077] * 3},
}
"""Kernels in each step of each phase; the captures' own figures (fixtures/README.md)."""
GRAPH_LEVEL = "2024.2/llama-8b_graphlevel"
REFUSED = "2023.4/llama-8b_graphlevel"
UNLABELLED = ("2023.4/torch_graph_probe", "2025.3/torch_graph_probe")
SUMMARIZED = (*NODE_LEVEL, GRAPH_LEVEL, *UNLABELLED)

# Kernel names of one category, as GLOB patterns written by hand from the captures: per decode
# step, how many. They are disjoint, and hold all kernels of their category.
NAMED = {
    "2023.4/qwen35-27b_b1": {
        "gemm": ("nvjet_*", 305),
        "splitk_reduce": ("*cublasLt::splitKreduce_kernel*", 112),
        "linear_attention": ("fused_recurrent_gated_delta_rule_*", 48),
        "conv": ("_causal_conv1d_update_kernel", 48),
        "kv_cache": ("*vllm::reshape_and_cache_flash_kernel*", 16),
        "attention_combine": ("*flash::FlashAttnFwdCombine*", 16),
    },
    "2023.4/qwen35-27b_eager": {
        "gemm": ("nvjet_*", 305),
        "splitk_reduce": ("*cublasLt::splitKreduce_kernel*", 112),
        "linear_attention": ("fused_recurrent_gated_delta_rule_*", 48),
        "kv_cache": ("*vllm::reshape_and_cache_flash_kernel*", 16),
        "attention_combine": ("*flash::FlashAttnFwdCombine*", 16),
    },
    "2025.3/qwen3-30b-a3b_fp8": {
        "moe_gemm": ("fused_moe_kernel", 96),
        "kv_cache": ("*vllm::reshape_and_cache_flash_kernel*", 48),
        "attention_combine": ("*flash::FlashAttnFwdCombine*", 48),
    },
}

VIEWS = {
    "txt": ["--format", "text"],
    "json": ["--format", "json"],
    "md": ["--format", "markdown"],
}
TABLES = {
    "family.csv": ["--format", "csv", "--by", "family"],
    "kernel.csv": ["--format", "csv", "--by", "kernel"],
}
REPORTS = [
    *((case, end, options) for case in SUMMARIZED for end, options in VIEWS.items()),
    *((SUMMARIZED[0], end, options) for end, options in TABLES.items()),
]


@pytest.fixture
def compare(request):
    """Compares a text with its golden file, or writes that file under --renew-golden."""

    def check(name: str, text: str) -> None:
        path = GOLDEN / name
        if request.config.getoption("renew_golden"):
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
        assert text == path.read_text(encoding="utf-8")

    return check


@pytest.mark.parametrize(
    ("case", "end", "options"),
    [pytest.param(*report, id="{}.{}".format(*report)) for report in REPORTS],
)
def test_report_is_the_golden_one(case, end, options, compare, monkeypatch):
    exit_code, text = run_summarize(case, options, monkeypatch)
    assert exit_code == 0, text
    compare(f"{case}.{end}", text)


def test_refusal_is_the_golden_one(compare, monkeypatch):
    exit_code, text = run_summarize(REFUSED, [], monkeypatch)
    assert exit_code == 1
    assert text.count("\n") == 1
    compare(f"{REFUSED}.refused.txt", text)


def test_every_golden_file_is_compared():
    expected = {f"{case}.{end}" for case, end, _ in REPORTS} | {f"{REFUSED}.refused.txt"}
    found = {path.relative_to(GOLDEN).as_posix() for path in GOLDEN.glob("*/*")}
    assert found == expected


def test_every_fixture_has_a_golden_file():
    assert set(exports.NAMES) == {*SUMMARIZED, REFUSED}


@pytest.mark.parametrize("case", NODE_LEVEL)
def test_steps_hold_what_sql_counts(case):
    counted = plain_sql.steps(fixture(case))
    for phase, kernels in NODE_LEVEL[case].items():
        assert [step.kernels for step in counted if step.phase == phase] == kernels
    steps = summary_of(case).table("step")
    with_kernels = steps.filter(steps["kernels"] > 0).sort("start_ns")
    found = with_kernels.select("phase", "kernels", "kernel_ns", "first_ns", "last_ns").rows()
    assert found == [
        (step.phase, step.kernels, step.kernel_ns, step.first_ns, step.last_ns) for step in counted
    ]


@pytest.mark.parametrize("case", NODE_LEVEL)
def test_phases_are_means_over_what_sql_counts(case):
    summary = summary_of(case)
    assert {phase.phase for phase in summary.phases} == set(NODE_LEVEL[case])
    for phase in summary.phases:
        counted = plain_sql.steps(fixture(case), phase.phase)
        assert phase.steps == len(counted)
        mean_ns = sum(step.kernel_ns for step in counted) / len(counted)
        assert phase.kernel_ms == pytest.approx(mean_ns / 1e6, rel=1e-12)


@pytest.mark.parametrize(
    ("case", "category", "pattern", "count"),
    [
        (case, name, *named)
        for case, all_named in NAMED.items()
        for name, named in all_named.items()
    ],
)
def test_category_holds_what_sql_counts(case, category, pattern, count):
    counted = plain_sql.steps(fixture(case), "decode", pattern)
    whole_ns = sum(step.kernel_ns for step in plain_sql.steps(fixture(case), "decode"))
    assert {step.kernels for step in counted} == {count}
    table = summary_of(case).only("decode").table("category")
    (row,) = table.filter(table["category"] == category).to_dicts()
    kernel_ns = sum(step.kernel_ns for step in counted)
    assert row["kernels_per_step"] == count
    assert row["kernel_ms"] == pytest.approx(kernel_ns / len(counted) / 1e6, rel=1e-12)
    assert row["share"] == pytest.approx(kernel_ns / whole_ns, rel=1e-12)


@pytest.mark.parametrize("case", SUMMARIZED)
@pytest.mark.parametrize("by", ["category", "family", "kernel"])
def test_shares_add_up_to_one(case, by):
    table = summary_of(case).table(by)
    for rows in table.partition_by("rank", "phase"):
        assert rows["share"].sum() == pytest.approx(1.0, rel=1e-12)


def test_two_exporters_of_one_capture_agree():
    older, newer = (
        kernelscope.summarize(fixture(f"{version}/qwen35-27b_b1"))
        for version in ("2023.4", "2024.2")
    )
    for by in ("category", "family", "kernel", "step"):
        assert older.table(by).equals(newer.table(by))
    assert without_trace(older) == without_trace(newer)


def test_graph_level_capture_is_refused_where_replays_left_no_rows():
    tables = plain_sql.query(fixture(REFUSED), "SELECT name FROM sqlite_master")
    assert ("CUPTI_ACTIVITY_KIND_GRAPH_TRACE",) not in tables
    with pytest.raises(errors.NoKernels, match="--cuda-graph-trace=node"):
        kernelscope.summarize(fixture(REFUSED))


def test_graph_level_capture_shows_its_replays():
    ((replays, replay_ns),) = plain_sql.query(
        fixture(GRAPH_LEVEL),
        'SELECT count(*), sum("end" - start) FROM CUPTI_ACTIVITY_KIND_GRAPH_TRACE',
    )
    assert replays == 48
    summary = summary_of(GRAPH_LEVEL)
    table = summary.table("category")
    rows = table.filter(table["category"] == "cuda_graph").to_dicts()
    steps = {phase.phase: phase.steps for phase in summary.phases}
    assert sum(row["kernels_per_step"] * steps[row["phase"]] for row in rows) == replays
    total_ms = sum(row["kernel_ms"] * steps[row["phase"]] for row in rows)
    assert total_ms == pytest.approx(replay_ns / 1e6, rel=1e-12)


@pytest.mark.parametrize("case", UNLABELLED)
def test_trace_without_steps_is_one_unit(case):
    trace = kernelscope.read_export(fixture(case))
    steps = kernelscope.split_steps(trace, method="none")
    (phase,) = kernelscope.summarize(trace, steps=steps).phases
    assert phase.phase == "trace"
    assert phase.kernels_per_step.median == plain_sql.kernels(fixture(case)) == 84


@pytest.mark.parametrize("case", UNLABELLED)
def test_five_replays_of_a_graph_are_five_inferred_steps(case):
    """The probe replays a graph of 12 kernels five times, then runs eagerly twice."""
    summary = summary_of(case)
    (phase,) = summary.phases
    assert summary.step_method == "graph"
    assert (phase.steps, phase.kernels_per_step.median) == (5, 12)
    assert any("inferred" in warning for warning in summary.warnings)


def fixture(case: str) -> Path:
    return exports.exported(case)


@functools.cache
def summary_of(case: str) -> kernelscope.Summary:
    return kernelscope.summarize(fixture(case))


def run_summarize(case: str, options: list[str], monkeypatch) -> tuple[int, str]:
    """Exit code and text of the command, run where the fixtures are so that paths are short."""
    fixture(case)
    monkeypatch.chdir(exports.folder())
    result = CliRunner().invoke(main, ["summarize", f"{case}.sqlite", *options])
    return result.exit_code, normalized(result.output)


def normalized(text: str) -> str:
    """Without the two versions, and with floats as exact as they are on every machine.

    Sums of floats depend on their order in the last digits, and that on the number of threads.
    """
    text = re.sub(r'("kernelscope_version": ")[^"]+', r"\1(version)", text)
    text = re.sub(r'("rules_version": ")[^"]+', r"\1(version)", text)
    # A long line is folded, perhaps before the version.
    text = re.sub(r"\b(kernelscope|rules)\s+\d[\w.]*", r"\1 (version)", text)
    return re.sub(r"-?\d+\.\d{7,}(?:e[-+]?\d+)?", lambda found: f"{float(found[0]):.9g}", text)


def without_trace(summary: kernelscope.Summary) -> dict:
    """The whole summary but for what names the file."""
    report = json.loads(kernelscope.render(summary, "json"))
    return {key: value for key, value in report.items() if key != "trace"}
