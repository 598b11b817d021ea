"""Situations from public bug reports, each with its right answer (fixtures/cases/cases.csv).

The scripts build tiny exports; ``expected_json`` was worked out by hand from their rows. Its
categories are coarser than ours: attention includes attention_combine, moe includes moe_gemm, other
includes unknown.
"""

import csv
import json
import sqlite3
from contextlib import closing
from pathlib import Path

import polars as pl
import pytest
from click.testing import CliRunner

import kernelscope
from kernelscope.cli import main
from kernelscope.errors import NoKernels, NotAnExport

FOLDER = Path(__file__).parent.parent / "fixtures" / "cases"
_LINES = (FOLDER / "cases.csv").read_text("utf-8").splitlines()
CASES = {row["id"]: row for row in csv.DictReader(_LINES)}
EXPECTED = {name: json.loads(row["expected_json"]) for name, row in CASES.items()}
COARSE = {"attention_combine": "attention", "moe_gemm": "moe", "unknown": "other"}
SCRIPTS = {path.name.split(".")[0]: path for path in FOLDER.glob("*.sql")}


@pytest.fixture(scope="session")
def build(tmp_path_factory):
    """Runs a case's script, once, and gives the path of its export."""
    built = {}

    def build_case(case):
        if case not in built:
            script = next(path for name, path in SCRIPTS.items() if name.startswith(case))
            built[case] = tmp_path_factory.mktemp(case) / "case.db"
            with closing(sqlite3.connect(built[case])) as database:
                database.executescript(script.read_text("utf-8"))
        return built[case]

    return build_case


def phases_of(case):
    """(phase, what is expected of it) of a case; the two files of a comparison are cases too."""
    expected = EXPECTED[case.split("_")[0]]
    side = case.rpartition("_")[2]
    if side in ("a", "b"):
        found = expected.get(side)
        return {"decode": found} if isinstance(found, dict) and "steps" in found else {}
    return {
        phase: figures
        for phase, figures in expected.get("phases", {}).items()
        if phase != "empty" and isinstance(figures, dict)
    }


def shared_names():
    for name in sorted(SCRIPTS):
        case = name.split("_")[0]
        side = f"_{name[-1]}" if name[-2:] in ("_a", "_b") else ""
        for phase, figures in phases_of(case + side).items():
            yield pytest.param(name, phase, figures, id=f"{case}{side}-{phase}")


@pytest.mark.parametrize(("name", "phase", "figures"), list(shared_names()))
def test_phases_have_the_steps_kernels_and_times_expected(build, name, phase, figures):
    summary = kernelscope.summarize(build(name))
    if not figures["steps"]:
        assert phase not in {found.phase for found in summary.phases}
        return
    found = summary.phase(phase)
    steps = summary.table("step").filter(
        (pl.col("phase") == phase) & (pl.col("status") == "complete")
    )
    counts = steps["kernels"].value_counts().sort("kernels").rows()
    assert found.steps == figures["steps"]
    assert [list(row) for row in counts] == sorted(figures["kernels_per_step"])
    assert found.kernel_ms * 1e6 == pytest.approx(figures["mean_sum_ns"])
    assert found.busy_ms * 1e6 == pytest.approx(figures["mean_busy_ns"])
    assert totals(summary, phase, found.steps) == pytest.approx(figures["category_total_ns"])


def totals(summary, phase, steps, rank=0):
    """Time per coarse category over all steps of a phase, ns."""
    rows = summary.table("category").filter((pl.col("phase") == phase) & (pl.col("rank") == rank))
    coarse = rows.with_columns(pl.col("category").replace(COARSE)).group_by("category")
    return dict(coarse.agg(pl.col("kernel_ms").sum() * 1e6 * steps).rows())


def test_c03_no_kernels_is_an_error_that_counts_the_launches(build):
    with pytest.raises(NoKernels) as error:
        kernelscope.read_export(build("C03"))
    for words in (
        "no GPU kernels",
        "12 launch calls (4 of them graph launches)",
        "CUPTI",
        "driver",
    ):
        assert words in str(error.value)


def test_c05_a_truncated_copy_is_named_with_both_sizes(build, tmp_path):
    whole = build("C05").read_bytes()
    cut = tmp_path / "case.db"
    cut.write_bytes(whole[:20_000])
    with pytest.raises(NotAnExport, match=rf"truncated: it has 20,000 bytes .* {len(whole):,}"):
        kernelscope.read_export(cut)


@pytest.mark.parametrize("name", ["case.nsys-rep", "case.sqlite", "case.qdstrm"])
def test_c07_a_report_is_named_with_the_command_that_exports_it(tmp_path, monkeypatch, name):
    monkeypatch.setenv("PATH", "")
    stream = name.endswith(".qdstrm")
    text = (
        b"NVIDIA Nsight Systems Stream 2025.5" if stream else b"NVIDIA Tegra Profiler Report \0\0"
    )
    (tmp_path / name).write_bytes(text)
    done = CliRunner().invoke(main, ["summarize", str(tmp_path / name)])
    assert done.exit_code == 1
    assert "nsys export --type sqlite" in done.stderr
    assert ("Import it first" in done.stderr) == stream


@pytest.mark.parametrize(("case", "steps"), [("C10", 3), ("C33", 4)])
def test_ranks_are_kept_apart(build, case, steps):
    """C10: equal correlation ids in both processes. C33: rank 1 arrives late."""
    summary = kernelscope.summarize(build(case))
    assert [(p.rank, p.phase, p.steps) for p in summary.phases] == [
        (0, "decode", steps),
        (1, "decode", steps),
    ]
    expected = EXPECTED[case]["per_rank"]
    for rank, figures in enumerate(expected.values()):
        phase = summary.phase("decode", rank)
        assert phase.kernels_per_step.median == figures["kernels_per_step"][0][0]
        assert phase.kernel_ms * 1e6 == pytest.approx(figures["mean_sum_ns"])
        assert totals(summary, "decode", steps, rank) == pytest.approx(figures["category_total_ns"])


def test_c10_ranks_are_the_gpus_of_the_device_map(build):
    """Both processes call their GPU device 0; TARGET_INFO_CUDA_DEVICE tells which it is."""
    trace = kernelscope.read_export(build("C10"))
    processes = sorted(trace.kernels["process"].unique())
    assert [trace.info.gpu(process, 0).id for process in processes] == [0, 1]


def test_c12_an_opaque_replay_is_known_by_its_time_only(build):
    expected = EXPECTED["C12"]
    summary = kernelscope.summarize(build("C12"))
    decode = summary.phase("decode")
    assert decode.steps == expected["steps"]
    assert decode.kernels_per_step.median == expected["eager_kernels_per_step"]
    assert decode.busy_ms * 1e6 == pytest.approx(9_075_000)
    assert decode.opaque_share == pytest.approx(expected["graph_share_of_busy_pct"] / 100, abs=1e-4)
    assert any("--cuda-graph-trace=node" in warning for warning in summary.warnings)
    assert "idle 99" not in kernelscope.render(summary)


def test_c16_drafts_and_verification_are_one_step(build):
    decode = kernelscope.summarize(build("C16")).phase("decode")
    assert decode.graph_launches_per_step == EXPECTED["C16"]["graph_launches_per_step"]
    assert decode.wall_ms.median * 1e6 == pytest.approx(EXPECTED["C16"]["median_period_ns"])
    parts = kernelscope.summarize(build("C16")).table("part")
    assert parts["part"].to_list() == [1, 2, 3]
    assert parts["span_ms"][0] * 1e6 == pytest.approx(EXPECTED["C16"]["target_span_ns"])
    assert parts["kernel_ms"][0] * 1e6 == pytest.approx(EXPECTED["C16"]["target_sum_ns"])
    # A step schedules three tokens; how many are accepted is not in a trace.
    assert decode.tokens_per_s is None


def test_c22_the_detailed_label_gives_context_lengths(build):
    steps = kernelscope.summarize(build("C22")).table("step")
    decode = steps.filter(pl.col("phase") == "decode")
    assert decode["generation_kv_tokens"].to_list() == [513, 514, 515, 774, 776]


def test_c24_warm_up_is_outside_and_captured_launches_are_not_lost(build):
    (left,) = kernelscope.summarize(build("C24")).outside
    assert (left.reason, left.kernels) == ("launched before the first step", 176)
    assert kernelscope.diagnose(build("C24")).problems == ()


def test_c26_kernels_without_a_launch_call_are_counted_but_in_no_step(build):
    summary = kernelscope.summarize(build("C26"))
    (outside,) = summary.outside
    assert outside.kernels == EXPECTED["C26"]["kernels_without_api_row"]
    assert summary.ranks[0].kernels == EXPECTED["C26"]["total_kernels"]


def test_c28_a_pause_between_requests_is_not_part_of_a_step(build):
    summary = kernelscope.summarize(build("C28"))
    decode = summary.phase("decode")
    assert decode.wall_ms.median * 1e6 == EXPECTED["C28"]["median_decode_period_ns"]
    assert decode.wall_ms.max < 400
    assert any("1 pause" in warning for warning in summary.warnings)


def test_c30_busy_time_is_the_union_of_the_streams(build):
    expected = EXPECTED["C30"]
    trace = kernelscope.summarize(build("C30")).phase("trace")
    assert trace.span_ms * 1e6 == pytest.approx(expected["window_span_ns"])
    assert trace.busy_ms * 1e6 == pytest.approx(expected["busy_ns"])
    assert trace.idle_ms * 1e6 == pytest.approx(expected["idle_ns"])
    assert trace.kernel_ms * 1e6 == pytest.approx(expected["sum_ns"])
    assert trace.overlap_ms * 1e6 == pytest.approx(expected["overlap_ns"])


def test_c33_waiting_for_the_late_rank_is_told_from_transfer(build):
    expected = EXPECTED["C33"]
    table = kernelscope.summarize(build("C33")).table("collective")
    times = dict(zip(("rank0", "rank1"), (table["communication_ms"] * 1e6).to_list(), strict=True))
    assert times == pytest.approx(expected["communication_ns_per_step"])
    assert (table["wait_ms"] * 1e6).to_list() == pytest.approx([expected["skew_ns_per_step"], 0])


def test_c36_names_that_mislead(build):
    kernels = kernelscope.classify(kernelscope.read_export(build("C36")))
    found = {(row["short_name"], row["name"]): row["category"] for row in kernels.to_dicts()}
    assert kernels.height == EXPECTED["C36"]["kernels"]
    for short, full, category in EXPECTED["C36"]["category_by_short_name"]:
        mine = [c for (s, name), c in found.items() if name.startswith(full) or s == short == name]
        coarse = COARSE | {"copy": "elementwise"}
        assert {coarse.get(one, one) for one in mine} == {category}, short


def test_c42_a_million_kernels_in_a_thousand_steps(build):
    expected = EXPECTED["C42"]
    summary = kernelscope.summarize(build("C42"))
    decode = summary.phase("decode")
    assert (decode.steps, decode.kernels_per_step.median) == (1000, 1000)
    assert summary.ranks[0].kernels == expected["total_kernels"]
    assert decode.wall_ms.median * 1e6 == expected["median_period_ns"]
    assert totals(summary, "decode", 1) == pytest.approx(expected["category_ns_per_step"])


def test_c01_without_labels_steps_are_inferred_and_said_to_be(build):
    expected = EXPECTED["C01"]
    summary = kernelscope.summarize(build("C01"))
    decode = summary.phase("decode")
    assert (decode.steps, decode.kernels_per_step.median) == (
        expected["inferred_steps"],
        expected["kernels_per_inferred_step"],
    )
    assert decode.graph_launches_per_step == 1
    found = totals(summary, "decode", decode.steps)
    assert found == pytest.approx(expected["inferred_step_category_total_ns"])
    assert sum(left.kernels for left in summary.outside) == expected["eager_block_kernels"]
    assert summary.step_method == "graph"
    assert any("inferred" in warning for warning in summary.warnings)


def test_every_case_is_tested():
    """By its phases, or by a test that names it."""
    texts = [(Path(__file__).parent / f"test_{name}.py").read_text("utf-8")
             for name in ("cases", "comparison")]  # fmt: skip
    by_phases = {param.id.split("-")[0][:3] for param in shared_names()}
    named = {case for case in CASES for text in texts if f'"{case}' in text or case.lower() in text}
    assert by_phases | named == set(CASES)
