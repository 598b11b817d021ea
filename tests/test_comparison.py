"""Two traces compared: times per step, what accounts for the change, and what kernels became."""

import io
import json
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from click.testing import CliRunner
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.console import Console

import exports
import kernelscope
from export_builder import DECODE, PREFILL, ExportBuilder
from kernelscope.cli import main
from kernelscope.commands.diff import FORMATS
from kernelscope.comparison.alignment import align
from kernelscope.comparison.changes import find_changes
from kernelscope.comparison.significance import find_shift
from kernelscope.comparison.usual import UsualStep
from kernelscope.errors import OutputError, PhaseNotFound
from kernelscope.rendering.comparison import (
    COMPARISON_FORMATS,
    NOTHING,
    print_comparison,
    render_text,
)
from kernelscope.rules import load_rules
from test_cases import build  # noqa: F401 (a fixture)

GOLDEN = Path(__file__).parent / "golden"
NORM, QUANT, GEMM, OTHER_TILE = (
    "rms_norm_kernel",
    "scaled_fp8_quant_kernel",
    "nvjet_tst_64x8",
    "nvjet_tst_128x8",
)
FUSED = "rms_norm_static_fp8_quant_kernel"
STEP = [(NORM, 2), (QUANT, 1), (GEMM, 10), ("silu_and_mul_kernel", 3)]


@pytest.fixture
def compared(write):
    """Compares traces of that many decode steps with these kernels (µs each)."""

    def compare(before, after, steps=6):
        paths = []
        for kernels in (before, after):
            export = ExportBuilder("2024.2").gpu(0, "NVIDIA H200")
            for _ in range(steps):
                export.step(DECODE, kernels)
            paths.append(write(export))
        return kernelscope.compare(*paths)

    return compare


def changes(comparison):
    """(change, before, after, µs) of every place that changed."""
    rows = comparison.changed().select("change", "kernel_before", "kernel_after", "delta_ms")
    return [(*row[:3], round(row[3] * 1000, 6)) for row in rows.rows()]


def test_a_trace_differs_from_itself_in_nothing(compared):
    found = compared(STEP, STEP)
    assert found.is_empty
    assert found.parts["delta_ms"].abs().max() == 0
    assert NOTHING in render_text(found)


def test_a_changed_tile_is_told_with_its_place_and_time(compared):
    found = compared(STEP, [*STEP[:2], (OTHER_TILE, 12), STEP[3]])
    assert changes(found) == [("changed", GEMM, OTHER_TILE, 2.0)]
    gemm = found.parts.filter(pl.col("part") == "gemm").row(0, named=True)
    assert (gemm["before_ms"], gemm["after_ms"]) == pytest.approx((0.01, 0.012))
    assert gemm["significant"] is True


def test_a_norm_that_quantizes_is_a_fusion(compared):
    found = compared(STEP, [(FUSED, 2), *STEP[2:]])
    assert changes(found) == [("fused", f"{NORM} + {QUANT}", FUSED, -1.0)]
    (row,) = found.changed().to_dicts()
    assert row["role"] == "norm + quantize"


def test_a_fusion_undone_is_a_split(compared):
    found = compared([(FUSED, 2), *STEP[2:]], STEP)
    assert changes(found) == [("split", FUSED, f"{NORM} + {QUANT}", 1.0)]


def test_new_and_removed_kernels(compared):
    without = [STEP[0], *STEP[2:]]
    assert changes(compared(without, STEP)) == [("new", "", QUANT, 1.0)]
    assert changes(compared(STEP, without)) == [("removed", QUANT, "", -1.0)]


def test_a_kernel_elsewhere_in_the_step_has_moved(compared):
    moved = [*STEP[1:], STEP[0]]
    assert changes(compared(STEP, moved)) == [("moved", NORM, NORM, 0.0)]


def test_parts_add_up_to_the_change_of_the_step(compared):
    found = compared(STEP, [(FUSED, 7), (OTHER_TILE, 4)])
    (phase,) = found.phases
    assert phase.measure == "wall"
    mean_change = phase.mean_after_ms - phase.mean_before_ms
    assert found.parts["delta_ms"].sum() == pytest.approx(mean_change, abs=1e-12)


def test_the_other_way_round_every_part_changes_its_sign(compared):
    other = [(FUSED, 7), (OTHER_TILE, 4)]
    there, back = compared(STEP, other), compared(other, STEP)
    signs = [dict(one.parts.select("part", "delta_ms").rows()) for one in (there, back)]
    assert signs[0] == pytest.approx({part: -ms for part, ms in signs[1].items()})


def test_the_shift_of_two_samples_by_hand():
    """All differences of {1, 2, 3, 4} and {11, 12, 13, 14}: 7 to 13, median 10."""
    before = np.array([1.0, 2.0, 3.0, 4.0])
    shift = find_shift(before, before + 10)
    assert shift.ms == 10
    assert 7 <= shift.low_ms < 10 < shift.high_ms <= 13
    assert shift.is_significant
    assert find_shift(before, before).is_significant is False


def test_three_steps_each_are_too_few_for_an_interval():
    """Six steps can be split in 20 ways, so the most extreme one still has 5 % on each side."""
    shift = find_shift(np.arange(3.0), np.arange(3.0) + 10)
    assert shift.is_significant is None


def test_c37_fp8_is_slower_than_bf16_by_its_quantization(build):  # noqa: F811
    """Per step 7.5 against 8.4 ms: gemm -2.1, quantize +2.7 (new), norm +0.3, attention 0."""
    found = kernelscope.compare(build("C37_compare_bf16_fp8_a"), build("C37_compare_bf16_fp8_b"))
    deltas = dict(
        found.parts.filter(pl.col("kind") == "category").select("part", "delta_ms").rows()
    )
    expected = {"gemm": -2.1, "quantize": 2.7, "norm": 0.3, "attention": 0.0}
    assert deltas == pytest.approx(expected)
    assert sum(deltas.values()) / 7.5 == pytest.approx(0.12)
    assert ("new", "quantize") in found.places.select("change", "category").rows()


def test_c39_other_lengths_are_no_regression(build):  # noqa: F811
    paths = [build(f"C39_compare_different_lengths_{side}") for side in "ab"]
    found = kernelscope.compare(*paths)
    (decode,) = found.phases
    assert (decode.phase, decode.steps) == ("decode", (4, 12))
    assert decode.relative == pytest.approx(0)
    assert any("prefill" in note and "only after" in note for note in found.notes)


def test_two_exporters_of_one_capture_differ_in_nothing():
    """Both versions of nsys exported the same recording (fixtures/README.md)."""
    names = ("2023.4/qwen35-27b_b1", "2024.2/qwen35-27b_b1")
    assert kernelscope.compare(*map(exports.exported, names)).is_empty


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("2023.4/qwen35-27b_b1", "2023.4/qwen35-27b_eager"),
        ("2023.4/qwen35-27b_b1", "2023.4/qwen35-27b_b8_tail"),
    ],
)
def test_captures_add_up(before, after):
    found = kernelscope.compare(exports.exported(before), exports.exported(after))
    for phase in found.phases:
        change = phase.mean_after_ms - phase.mean_before_ms
        assert found.rows(found.parts, phase)["delta_ms"].sum() == pytest.approx(change)


def test_other_batches_and_graphs_recorded_as_a_whole_are_told():
    names = ("2023.4/qwen35-27b_b1", "2023.4/qwen35-27b_b8_tail", "2024.2/llama-8b_graphlevel")
    one, eight, whole = map(exports.exported, names)
    notes = kernelscope.compare(one, eight).notes
    assert any("generating requests" in note for note in notes)
    declined = [phase.declined for phase in kernelscope.compare(one, whole).phases]
    assert any("--cuda-graph-trace=node" in reason for reason in declined)


def run(*arguments):
    return CliRunner().invoke(main, ["diff", *map(str, arguments)])


@pytest.fixture
def traces(write):
    """Six decode steps of one multiply of 10 µs in 100 µs, then in 110 µs."""
    paths = []
    for apart in (100, 110):
        export = ExportBuilder("2024.2").gpu(0, "NVIDIA H200")
        export.step(PREFILL, [(GEMM, 30)], at=100)
        for step in range(6):
            export.step(DECODE, [(GEMM, 10)], at=300 + apart * step)
        paths.append(write(export))
    return paths


@pytest.mark.parametrize(("limit", "code"), [("3%", 1), ("9.9%", 1), ("10%", 0), ("0.2", 0)])
def test_fail_above_is_an_exit_code(traces, limit, code):
    found = run(*traces, "--phase", "decode", "--fail-above", limit)
    assert found.exit_code == code, found.output
    assert ("10.0% longer" in found.stderr) == bool(code)


def test_fail_above_does_not_fail_for_what_became_faster(traces):
    assert run(*reversed(traces), "--phase", "decode", "--fail-above", "0%").exit_code == 0


def test_fail_above_fails_where_nothing_can_be_judged(traces):
    found = run(*traces, "--phase", "prefill", "--fail-above", "3%")
    assert found.exit_code == 1
    assert "at least four steps" in found.stderr


def test_a_phase_that_is_not_in_both_is_refused(traces):
    found = run(*traces, "--phase", "mixed")
    assert found.exit_code == 1
    assert "Phases in both: decode, prefill" in found.stderr
    with pytest.raises(PhaseNotFound):
        kernelscope.compare(*traces).only("mixed")


def test_formats_of_the_command_are_those_of_the_library(traces):
    assert set(FORMATS) == set(COMPARISON_FORMATS)
    found = json.loads(run(*traces, "--format", "json").stdout)
    assert found["equal"] is False
    assert [phase["phase"] for phase in found["phases"]] == ["decode", "prefill"]
    assert "| gemm | 0.010 | 0.010 | 0 |" in run(*traces, "--format", "markdown").stdout


def test_a_comparison_is_written_whole_and_over_no_trace(traces, tmp_path):
    target = tmp_path / "diff.md"
    assert run(*traces, "--format", "markdown", "-o", target).exit_code == 0
    assert run(*traces, "-o", target).exit_code == 1
    comparison = kernelscope.compare(*traces)
    kernelscope.write_comparison(comparison, target, "text", overwrite=True)
    assert target.read_text("utf-8") == render_text(comparison)
    with pytest.raises(OutputError, match="the trace itself"):
        kernelscope.write_comparison(comparison, traces[1], overwrite=True)


def test_split_by_is_a_usage_error(traces):
    assert run(*traces, "--split-by", "batch").exit_code == 2


CAPTURES = {
    "graphs-eager": ("2023.4/qwen35-27b_b1", "2023.4/qwen35-27b_eager"),
    "b1-b8": ("2023.4/qwen35-27b_b1", "2023.4/qwen35-27b_b8_tail"),
    "exporters": ("2023.4/qwen35-27b_b1", "2024.2/qwen35-27b_b1"),
}


@pytest.mark.parametrize("form", ["text", "markdown"])
@pytest.mark.parametrize("name", CAPTURES)
def test_report_is_the_golden_one(name, form, request, monkeypatch):
    """``--renew-golden`` writes the files; then read the difference."""
    for case in CAPTURES[name]:
        exports.exported(case)
    before, after = (f"{case}.sqlite" for case in CAPTURES[name])
    monkeypatch.chdir(exports.folder())
    text = run(before, after, "--format", form).stdout
    path = GOLDEN / f"diff.{name}.{'md' if form == 'markdown' else 'txt'}"
    if request.config.getoption("renew_golden"):
        path.write_text(text, "utf-8")
    assert text == path.read_text("utf-8")


def test_every_golden_comparison_is_compared():
    expected = {f"diff.{name}.{end}" for name in CAPTURES for end in ("md", "txt")}
    assert {path.name for path in GOLDEN.glob("diff.*")} == expected


@given(
    st.lists(st.sampled_from(STEP), min_size=1, max_size=6),
    st.lists(st.sampled_from([*STEP, (FUSED, 4), (OTHER_TILE, 7)]), min_size=1, max_size=6),
)
@settings(max_examples=60, deadline=None)
def test_every_kernel_of_both_steps_is_in_one_change(first, second):
    before, after = (step_of(kernels) for kernels in (first, second))
    found = find_changes(before, after, align(before, after))
    assert sorted(at for one in found for at in one.before) == list(range(len(first)))
    assert sorted(at for one in found for at in one.after) == list(range(len(second)))
    if first == second:
        assert {one.kind for one in found} == {"same"}


def step_of(kernels):
    """A usual step without layers."""
    names = tuple(name for name, _ in kernels)
    frame = pl.DataFrame({"name": names, "short_name": names})
    categories = tuple(kernelscope.classify_names(frame, load_rules())["category"])
    ms = np.array([us / 1000 for _, us in kernels])
    return UsualStep(names, names, categories, ("step",) * len(names), categories, ms, 1, 1)


def test_a_narrow_terminal_has_fewer_figures_and_whole_places(compared):
    found = compared(STEP, [*STEP[:2], (OTHER_TILE, 12), STEP[3]])
    out = io.StringIO()
    print_comparison(found, Console(file=out, width=80, color_system=None))
    lines = out.getvalue().splitlines()
    assert max(map(len, lines)) <= 80
    (heading,) = (line for line in lines if "what changed" in line)
    assert heading.split() == ["what", "changed", "before", "ms", "change", "ms", "change"]
    assert any("changed gemm in step" in line for line in lines)
