"""The table of steps, and how times move along a run."""

import csv
import io
import json

import polars as pl
import pytest
from click.testing import CliRunner

from export_builder import DECODE, EMPTY, PREFILL, ExportBuilder
from kernelscope.cli import main
from kernelscope.commands.steps import FORMATS
from kernelscope.rendering.steps import BINARY, STEP_FORMATS
from kernelscope.summary.steps import CONTEXT, STEP

DETAILED = "execute_1_context_0(sq0sk0sqsq0sqsk0)_generation_1(sq1sk{0}sqsq1sqsk{0})"


@pytest.fixture
def trace(write, run_export):
    return write(run_export.step(EMPTY))


def test_the_formats_are_the_renderers():
    assert set(FORMATS) == set(STEP_FORMATS)


def test_every_step_has_a_row_with_its_status(summarize, run_export):
    rows = summarize(run_export.step(EMPTY)).steps()
    assert rows["phase"].to_list() == ["prefill", "decode", "decode", "decode", "empty"]
    assert rows["status"].to_list()[-2:] == ["complete", "empty"]
    assert rows["start_ms"][0] == 0


def test_category_times_add_up_to_the_kernel_time(summarize, run_export):
    rows = summarize(run_export).steps()
    parts = rows.select(pl.sum_horizontal("gemm_ms", "norm_ms")).to_series()
    assert parts.to_list() == pytest.approx(rows["kernel_ms"].to_list())
    causes = rows.select(pl.sum_horizontal("^idle_.+_ms$")).to_series()
    assert causes.to_list() == pytest.approx(rows["idle_ms"].to_list())


@pytest.mark.parametrize("form", sorted(set(FORMATS) - BINARY))
def test_every_text_form_is_printed(trace, form):
    done = CliRunner().invoke(main, ["steps", str(trace), "--format", form])
    assert done.exit_code == 0, done.output
    assert "decode" in done.stdout


def test_csv_has_every_column_and_json_the_trends(trace):
    text = CliRunner().invoke(main, ["steps", str(trace), "--format", "csv"]).stdout
    rows = list(csv.DictReader(io.StringIO(text)))
    assert {"step", "label", "wall_ms", "gemm_ms", "launch_calls"} <= set(rows[0])
    data = json.loads(CliRunner().invoke(main, ["steps", str(trace), "--format", "json"]).stdout)
    assert len(data["steps"]) == len(rows) == 5
    assert data["trends"]


def test_parquet_needs_a_file_and_keeps_the_origin(trace, tmp_path):
    import pyarrow.parquet

    assert CliRunner().invoke(main, ["steps", str(trace), "--format", "parquet"]).exit_code == 2
    target = tmp_path / "steps.parquet"
    options = ["steps", str(trace), "--format", "parquet", "-o", str(target)]
    assert CliRunner().invoke(main, options).exit_code == 0
    assert pyarrow.parquet.read_schema(target).metadata[b"step_method"] == b"nvtx"
    assert CliRunner().invoke(main, options).exit_code == 1  # exists


@pytest.mark.parametrize("label", ["plain", "detailed"])
def test_a_trend_is_the_slope_of_a_straight_line(summarize, label):
    """Attention grows by 2 µs a step, and the context by 4 tokens where the label says so."""
    export = ExportBuilder("2024.2")
    for number in range(4):
        text = DECODE if label == "plain" else DETAILED.format(100 + 4 * number)
        export.step(text, [("flash_fwd_kernel", 10 + 2 * number), ("nvjet_a", 5)])
    trends = {row["category"]: row for row in summarize(export).table("trend").to_dicts()}
    attention = trends["attention"]
    assert attention["unit"] == (STEP if label == "plain" else CONTEXT)
    assert attention["slope_ns"] == pytest.approx(2000 if label == "plain" else 500)
    assert attention["slope_error_ns"] == pytest.approx(0, abs=1e-6)
    assert trends["gemm"]["slope_ns"] == pytest.approx(0)


def test_the_error_of_a_slope_is_that_of_least_squares(summarize):
    """Times 10, 12, 11, 13 at 0..3: slope 0.8, residual sum of squares 1.8, so the error is
    sqrt(1.8 / 2 / 5) = 0.4243."""
    export = ExportBuilder("2024.2")
    for duration in (10, 12, 11, 13):
        export.step(DECODE, [("nvjet_a", duration)])
    (row,) = summarize(export).table("trend").to_dicts()
    assert row["slope_ns"] == pytest.approx(800)
    assert row["slope_error_ns"] == pytest.approx(424.264, abs=1e-3)


def test_two_steps_make_no_trend(summarize, export):
    export.step(PREFILL, [("nvjet_a", 1)]).step(DECODE, [("nvjet_a", 1)])
    assert summarize(export).table("trend").is_empty()
