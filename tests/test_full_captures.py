"""The figures that must come out of the full captures, which are too large for the repository.

Skipped unless KERNELSCOPE_TRACES names the folder that holds them, as .sqlite or .sqlite.xz.
The literal figures were counted by hand with plain SQL when the captures were made.
"""

from __future__ import annotations

import os
import re
import runpy
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

import exports
import kernelscope
import plain_sql
from kernelscope import errors

FOLDER = os.environ.get("KERNELSCOPE_TRACES")
FIXTURES = Path(__file__).parent.parent / "fixtures"
MAKER = runpy.run_path(str(FIXTURES / "make_fixtures.py"))
BATCH_1 = "qwen35-27b_bf16_b1_in512_out32"
GRAPH_LEVEL = "llama-8b_bf16_b4_in256_out16_graphlevel"

pytestmark = pytest.mark.skipif(
    FOLDER is None, reason="KERNELSCOPE_TRACES does not name the folder with the full captures"
)


@pytest.fixture(scope="module")
def capture(tmp_path_factory):
    """Finds a capture by name, decompressed once."""
    scratch = tmp_path_factory.mktemp("captures")

    def find(name: str) -> Path:
        return MAKER["find_capture"](Path(FOLDER), name, scratch)

    return find


@pytest.mark.parametrize(
    ("name", "phase", "steps", "kernels"),
    [
        (BATCH_1, "prefill", 1, 1596),
        (BATCH_1, "decode", 31, 1023),
        (f"{BATCH_1}.nsys2024", "prefill", 1, 1596),
        (f"{BATCH_1}.nsys2024", "decode", 31, 1023),
        ("qwen35-27b_bf16_b1_in512_out6_eager", "decode", 5, 2537),
        ("qwen3-30b-a3b_fp8_b1_in512_out12", "decode", 11, 1077),
    ],
)
def test_every_step_of_the_phase_has_as_many_kernels(capture, name, phase, steps, kernels):
    found = kernelscope.summarize(capture(name)).phase(phase)
    counts = found.kernels_per_step
    assert (found.steps, counts.median, counts.min, counts.max) == (
        steps, kernels, kernels, kernels,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("category", "kernels"),
    [
        ("gemm", 305),
        ("splitk_reduce", 112),
        ("linear_attention", 48),
        ("conv", 48),
        ("kv_cache", 16),
        ("attention_combine", 16),
    ],
)
def test_decode_step_holds_the_category(capture, category, kernels):
    table = kernelscope.summarize(capture(BATCH_1)).only("decode").table("category")
    assert table.filter(table["category"] == category)["kernels_per_step"].to_list() == [kernels]


def test_gemm_share_of_decode(capture):
    gemm = plain_sql.steps(capture(BATCH_1), "decode", "nvjet_*")
    whole = plain_sql.steps(capture(BATCH_1), "decode")
    of_first_step = gemm[0].kernel_ns / whole[0].kernel_ns
    of_all = sum(step.kernel_ns for step in gemm) / sum(step.kernel_ns for step in whole)
    assert (len(whole), round(of_first_step, 3), round(of_all, 5)) == (31, 0.882, 0.88255)
    table = kernelscope.summarize(capture(BATCH_1)).only("decode").table("category")
    shares = table.filter(table["category"] == "gemm")["share"].to_list()
    assert shares == pytest.approx([of_all], rel=1e-12)


def test_times_of_decode(capture):
    decode = kernelscope.summarize(capture(BATCH_1)).phase("decode")
    assert round(decode.kernel_ms, 2) == 14.81
    assert round(decode.wall_ms.median, 2) == 15.45


def test_two_exporters_of_one_capture_agree(capture):
    older, newer = (kernelscope.summarize(capture(n)) for n in (BATCH_1, f"{BATCH_1}.nsys2024"))
    for by in ("category", "family", "kernel", "step"):
        assert older.table(by).equals(newer.table(by))


def test_batch_8_has_one_mixed_step(capture):
    summary = kernelscope.summarize(capture("qwen35-27b_bf16_b8_in512_out16"))
    assert {phase.phase: phase.steps for phase in summary.phases} == {
        "prefill": 1,
        "mixed": 1,
        "decode": 15,
    }
    counts = summary.phase("decode").kernels_per_step
    assert (counts.min, counts.max) == (1023, 1033)


def test_graph_level_capture_without_rows_is_refused(capture):
    with pytest.raises(errors.NoKernels, match="--cuda-graph-trace=node"):
        kernelscope.summarize(capture(GRAPH_LEVEL))


def test_graph_level_capture_shows_its_48_replays(capture):
    summary = kernelscope.summarize(capture(f"{GRAPH_LEVEL}.nsys2024"))
    assert summary.table("step")["replays"].sum() == 48
    assert any("--cuda-graph-trace=node" in warning for warning in summary.warnings)


@pytest.mark.parametrize("made", MAKER["FIXTURES"], ids=lambda made: made.path)
def test_fixture_is_what_the_command_makes_of_the_capture(capture, made, tmp_path):
    again = tmp_path / "again.sqlite"
    kernelscope.trim(capture(made.source), again, steps=made.steps)
    assert dump(again) == dump(fixture(made))


@pytest.mark.parametrize(
    "made", [made for made in MAKER["FIXTURES"] if made.steps], ids=lambda made: made.path
)
def test_fixture_measures_as_the_capture_does(capture, made):
    columns = [
        "start_ns", "phase", "status", "kernels", "kernel_ns", "busy_ns", "first_ns", "last_ns",
        "launch_calls", "graph_launches", "launch_calls_made",
    ]  # fmt: skip
    full, cut = (
        kernelscope.summarize(path).table("step").select(*columns, "wall_ns")
        for path in (capture(made.source), fixture(made))
    )
    kept = full.filter(full["start_ns"].is_in(cut["start_ns"].implode()))
    assert kept.select(columns).rows() == cut.select(columns).rows()
    # What follows the last kept step is not in the fixture, so how long it lasted is not either.
    both = zip(kept["wall_ns"], cut["wall_ns"], strict=True)
    assert sum(whole != part for whole, part in both) <= 1
    assert cut["wall_ns"].drop_nulls().is_in(kept["wall_ns"].implode()).all()


def fixture(made) -> Path:
    """The file in fixtures/exports."""
    return exports.exported(made.path.removesuffix(".xz").removesuffix(".sqlite"))


@pytest.mark.parametrize(
    ("name", "model", "phase", "facts"),
    [
        (BATCH_1, "qwen35-27b", "decode", {"context_len": 528}),
        (BATCH_1, "qwen35-27b", "prefill", {}),
        ("qwen35-27b_bf16_b8_in512_out16", "qwen35-27b", "decode", {"context_len": 520}),
        ("qwen35-27b_bf16_b1_in512_out6_eager", "qwen35-27b", "decode", {"context_len": 515}),
        (
            "qwen3-30b-a3b_fp8_b1_in512_out12",
            "qwen3-30b-a3b",
            "decode",
            {"context_len": 518, "quantization": "fp8"},
        ),
    ],
)
def test_the_page_on_rooflines_has_the_figures_of_the_captures(capture, name, model, phase, facts):
    config = FIXTURES / "configs" / f"{model}.json"
    run = kernelscope.RunFacts(**facts)
    found = kernelscope.roofline(capture(name), config, run=run).phase(phase)
    row = (
        f"| {found.gemm_bytes / 1e9:.2f} | {found.gemm_ms:.2f} "
        f"| {found.gemm_bytes_per_s / 1e12:.2f} | {found.gemm_of_peak * 100:.1f} % "
        f"| {found.kernel_ms:.2f} | {found.floor_ms:.2f} | {found.kernel_over_floor:.2f} |"
    )
    assert row in (FIXTURES.parent / "docs" / "roofline.md").read_text("utf-8")


def dump(path: Path) -> list[str]:
    """All that is in a database but the version that made it.

    Its bytes would also depend on SQLite's version.
    """
    with closing(sqlite3.connect(path)) as db:
        return [re.sub(r"by kernelscope [\w.]+", "", line) for line in db.iterdump()]
