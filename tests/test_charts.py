"""Charts: the data that they show, the forms that they are written in, and their colours."""

import io
import itertools
import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree as ET

import numpy as np
import polars as pl
import pytest
from PIL import Image

import kernelscope
from export_builder import DECODE, PREFILL, ExportBuilder
from exports import exported
from kernelscope import charts, errors
from kernelscope.charts import files, frames
from kernelscope.charts.palette import THEMES, theme
from kernelscope.commands import chart as command
from kernelscope.rules import load_rules

CONFIG = Path(__file__).parent.parent / "fixtures" / "configs" / "qwen35-27b.json"
QWEN = "2023.4/qwen35-27b_b1"


@pytest.fixture(scope="module")
def qwen():
    return kernelscope.summarize(exported(QWEN), layers=True)


def where(summary, phase="decode"):
    return frames.places(summary.tables, phase, 0, None)[0]


def values(chart):
    """The rows of a chart's data."""
    return chart.to_dict()["data"]["values"]


def test_the_grid_has_a_square_for_each_of_the_1023_kernels(qwen):
    # 1,023 kernels per step: counted with plain SQL, see test_full_captures.
    squares = values(qwen.plot.grid())
    assert len(squares) == 1023
    assert [square["place"] for square in squares] == list(range(1023))
    assert len({(square["row"], square["column"]) for square in squares}) == 1023
    gemms = [square for square in squares if square["what"] == "gemm (305)"]
    assert len(gemms) == 305  # the README's count of matrix multiplies


def test_the_typical_step_is_the_middle_one_of_those_with_the_usual_count(summarize):
    # Spans 30, 10, 20 µs of two kernels each, and one step of a single kernel of 15 µs.
    export = ExportBuilder("2024.2")
    for first, second in ((25, 5), (5, 5), (15, 5)):
        export.step(DECODE, [("nvjet_a", first), ("rms_norm_kernel", second)])
    export.step(DECODE, [("nvjet_a", 15)])
    export.step(DECODE, [("nvjet_a", 5), ("rms_norm_kernel", 5)], end=None)
    typical = summarize(export).table("typical")
    assert typical["step"].unique().to_list() == [2]
    assert typical.select("short_name", "start_ns", "end_ns").rows() == [
        ("nvjet_a", 0, 15_000),
        ("rms_norm_kernel", 15_000, 20_000),
    ]


def test_every_phase_has_a_typical_step_of_its_usual_count(qwen):
    for phase in qwen.phases:
        rows = qwen.rows(phase, "typical")
        assert rows.height == phase.kernels_per_step.median
        assert rows["start_ns"].is_sorted()


def test_the_strip_covers_exactly_the_time_of_the_kernels(qwen):
    kernels = frames.typical(qwen.tables, where(qwen))
    folded = frames.strip(kernels)
    pieces = folded.pieces
    drawn_ms = (pieces["to_ms"] - pieces["from_ms"]).sum()
    assert drawn_ms == pytest.approx(kernels["us"].sum() / 1e3, rel=1e-9)
    assert pieces["to_ms"].max() <= folded.row_ms
    assert folded.row_ms * (folded.rows - 1) <= kernels["end_ms"].max()


def test_a_kernel_beside_another_one_is_marked():
    kernels = pl.DataFrame(
        {"start_ms": [0.0, 1.0, 4.0], "end_ms": [3.0, 2.0, 9.0], "us": [3e3, 1e3, 5e3]}
    )
    folded = frames.strip(kernels)
    # 9 ms in about eight rows: rows of 2 ms, the last kernel in rows 2 to 4.
    assert (folded.row_ms, folded.rows) == (2.0, 5)
    assert folded.pieces.select("row", "from_ms", "to_ms", "beside").rows() == [
        (0, 0.0, 2.0, False),
        (1, 0.0, 1.0, False),
        (0, 1.0, 2.0, True),
        (2, 0.0, 2.0, False),
        (3, 0.0, 2.0, False),
        (4, 0.0, 1.0, False),
    ]


def test_shares_are_those_of_the_table(qwen):
    rows = frames.shares(qwen.tables, where(qwen), "category")
    assert rows["share"].sum() == pytest.approx(1)
    assert rows["share"].to_list() == qwen.rows(qwen.phase("decode"))["share"].to_list()
    assert len(qwen.plot.shares().to_dict()["vconcat"]) == len(qwen.phases)


def test_a_share_beside_opaque_replays_is_a_lower_bound_and_nothing_is_zero_that_is_not(qwen):
    # The text report of this capture has the same: tests/golden/2024.2/llama-8b_graphlevel.txt.
    summary = kernelscope.summarize(exported("2024.2/llama-8b_graphlevel"))
    labels = {row["what"]: row["label"] for row in values(summary.plot.shares("decode"))}
    assert labels.pop("cuda_graph")[0] == "9"
    assert all(label.startswith(("≥ ", "> 0 ")) for label in labels.values())
    whole = {row["what"]: row["label"] for row in values(qwen.plot.shares("prefill"))}
    assert not [label for label in whole.values() if label.startswith(("0.0 ", "≥"))]


def test_families_of_layers_add_up_to_the_layers_and_to_the_step(qwen):
    for phase in qwen.phases:
        layers = qwen.rows(phase, "layer")
        families = qwen.rows(phase, "layer_family")
        keys = ["layer_index", "layer_kind"]
        sums = families.group_by(keys).agg(pl.col("kernel_ms", "kernels_per_step").sum())
        both = layers.join(sums, on=keys, nulls_equal=True, suffix="_sum", how="left")
        for column in ("kernel_ms", "kernels_per_step"):
            assert np.allclose(both[column], both[f"{column}_sum"].fill_null(0))
        assert families["kernel_ms"].sum() == pytest.approx(phase.kernel_ms)


def test_layers_are_drawn_in_launch_order_with_what_is_around_them(qwen):
    rows = values(qwen.plot.layers())
    order = list(dict.fromkeys(row["layer"] for row in rows))
    assert order == ["before layers", *map(str, range(64)), "behind layers"]


def test_percentiles_of_steps_are_those_of_the_summary(qwen):
    times = frames.steps(qwen.tables, where(qwen))
    wall = qwen.phase("decode").wall_ms
    assert dict(times.percentiles.rows()) == pytest.approx(
        {"p10": wall.p10, "median": wall.median, "p90": wall.p90}
    )
    assert times.measure == "start to start"


def test_the_roofline_is_drawn_below_its_roof():
    facts = kernelscope.RunFacts(context_len=514)
    found = kernelscope.roofline(exported(QWEN), CONFIG, run=facts)
    lines, points = found.plot("decode").to_dict()["layer"]
    roofs = lines["data"]["values"]
    # Bandwidth of the export and dense BF16 peak of the datasheet: the ridge between them.
    ridge = 989.5e12 / 4_814_304_000_000
    assert any(row["flop_per_byte"] == pytest.approx(ridge, rel=1e-3) for row in roofs)
    assert len(points["data"]["values"]) == found.rows(found.phase("decode")).height
    with pytest.raises(errors.ChartError, match="mixed"):
        found.plot("mixed")


@pytest.mark.parametrize("kind", charts.KINDS)
@pytest.mark.parametrize("name", THEMES)
def test_each_form_of_each_chart_opens(qwen, kind, name):
    chart = getattr(replace(qwen.plot, theme=name), kind)()
    svg = ET.fromstring(charts.render_chart(chart, "svg"))  # noqa: S314 - our own
    assert svg.tag.endswith("svg")
    with Image.open(io.BytesIO(charts.render_chart(chart, "png"))) as image:
        assert min(image.size) > 100
        red, green, blue = image.convert("RGB").getpixel((2, 2))
        assert f"#{red:02x}{green:02x}{blue:02x}" == theme(name).background
    spec = json.loads(charts.render_chart(chart, "json"))
    assert "vega-lite" in spec["$schema"]
    page = charts.render_chart(chart, "html")
    assert "vegaEmbed('#chart'" in page
    assert "http-equiv" in page


def test_hostile_names_stay_text(qwen):
    name = "</script><script>alert(1)</script>\x1b[31m"
    named = qwen.table("typical").with_columns(short_name=pl.lit(name))
    summary = replace(qwen, tables={**qwen.tables, "typical": named})
    page = charts.render_chart(summary.plot.grid(), "html")
    assert "alert(1)" in page
    assert "<script>alert" not in page
    assert page.count("</script>") == 3
    assert "\\u001b" not in page.partition('id="spec">')[2]
    ET.fromstring(charts.render_chart(summary.plot.strip(), "svg"))  # noqa: S314 - our own


@pytest.fixture
def trace(run_export, write):
    return write(run_export)


@pytest.mark.parametrize("suffix", charts.CHART_FORMATS)
def test_the_suffix_chooses_the_form(run, trace, tmp_path, suffix):
    path = tmp_path / f"x.{suffix}"
    found = run("chart", trace, "--kind", "grid", "-o", path)
    assert found.exit_code == 0, found.output
    begins = {"svg": b"<svg", "png": b"\x89PNG", "html": b"<!DOCTYPE html>", "json": b"{"}
    assert path.read_bytes().startswith(begins[suffix])
    again = run("chart", trace, "--kind", "grid", "-o", path)
    assert (again.exit_code, "exists" in again.stderr) == (1, True)
    assert run("chart", trace, "--kind", "grid", "-o", path, "--force").exit_code == 0


@pytest.mark.parametrize("name", ["x.gif", "x"])
def test_an_unknown_suffix_is_one_line(run, trace, tmp_path, name):
    found = run("chart", trace, "--kind", "grid", "-o", tmp_path / name)
    assert found.exit_code == 1
    assert ".svg, .png, .html, .json" in found.stderr
    assert not (tmp_path / name).exists()


def test_a_roofline_needs_a_model_and_nothing_else_takes_one(run, trace, tmp_path):
    out = tmp_path / "x.svg"
    assert run("chart", trace, "--kind", "roofline", "-o", out).exit_code == 2
    assert run("chart", trace, "--kind", "grid", "--model-config", CONFIG, "-o", out).exit_code == 2


def test_the_command_draws_a_roofline(run, tmp_path):
    out = tmp_path / "x.json"
    arguments = ("--kind", "roofline", "--model-config", CONFIG, "-o", out)
    found = run("chart", exported(QWEN), *arguments)
    assert found.exit_code == 0, found.output
    assert json.loads(out.read_text())["title"]["text"] == "Roofline of a decode step"


def test_the_options_of_the_command_are_what_there_is():
    assert (*charts.KINDS, "roofline") == command.KINDS
    assert command.THEMES == charts.THEMES


def test_a_trace_without_steps_has_no_step_to_draw(run, trace, tmp_path):
    out = tmp_path / "x.svg"
    found = run("chart", trace, "--kind", "grid", "--steps-by", "none", "-o", out)
    assert found.exit_code == 1
    assert "--steps-by" in found.stderr
    assert run("chart", trace, "--kind", "shares", "--steps-by", "none", "-o", out).exit_code == 0


def test_a_phase_that_is_not_there_is_named(run, trace, tmp_path):
    found = run("chart", trace, "--kind", "grid", "--phase", "mixed", "-o", tmp_path / "x.svg")
    assert found.exit_code == 1
    assert "Phases with complete steps: decode, prefill." in found.stderr


def test_a_step_too_large_to_draw_is_refused(qwen, monkeypatch):
    monkeypatch.setattr(frames, "MOST_KERNELS", 1000)
    with pytest.raises(errors.ChartError, match="1,023 kernels; a picture can show 1,000"):
        qwen.plot.grid()


def test_layers_must_have_been_looked_for(run_summary, summarize):
    with pytest.raises(errors.ChartError, match="without layers"):
        run_summary.plot.layers()
    export = ExportBuilder("2024.2").step(PREFILL, [("nvjet_a", 5)]).step(DECODE, [("nvjet_a", 5)])
    path = kernelscope.summarize(exported(QWEN), layers=True)
    empty = {**path.tables, "layer_family": path.table("layer_family").clear()}
    with pytest.raises(errors.ChartError, match="No layers"):
        replace(path, tables=empty).plot.layers()
    assert summarize(export).plot.steps() is not None


@pytest.mark.parametrize("missing", ["altair", "vl_convert"])
def test_without_the_extra_the_hint_says_how_to_install_it(missing):
    code = (
        f"import sys; sys.modules[{missing!r}] = None\n"
        "from kernelscope.charts import files, plots\n"
        "from kernelscope.errors import MissingExtra\n"
        "try:\n"
        f"    {'plots.draw' if missing == 'altair' else 'files.converter'}()\n"
        "except MissingExtra as error:\n"
        "    print(error)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert f"Charts need {missing}" in done.stdout
    assert "pip install 'kernelscope[report]'" in done.stdout


def linear(colour):
    """Linear light of ``#rrggbb`` (sRGB), shape (3,)."""
    value = np.array([int(colour[at : at + 2], 16) for at in (1, 3, 5)]) / 255
    return np.where(value <= 0.04045, value / 12.92, ((value + 0.055) / 1.055) ** 2.4)


def contrast(one, other):
    """Of WCAG 2.2: (lighter + 0.05) / (darker + 0.05)."""
    light = sorted(float(linear(colour) @ [0.2126, 0.7152, 0.0722]) for colour in (one, other))
    return (light[1] + 0.05) / (light[0] + 0.05)


# Machado, Oliveira, Fernandes 2009, severity 1.0: protanopia, deuteranopia, tritanopia.
SIGHT = {
    "all cones": np.eye(3),
    "no red": [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216],
               [-0.003882, -0.048116, 1.051998]],
    "no green": [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413],
                 [-0.011820, 0.042940, 0.968881]],
    "no blue": [[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602],
                [0.004733, 0.691367, 0.303900]],
}  # fmt: skip
TOGETHER = (
    "gemm", "splitk_reduce", "attention", "linear_attention", "conv", "norm", "rope",
    "activation", "kv_cache", "moe", "moe_gemm", "quantize", "sampling", "elementwise", "copy",
    "communication",
)  # fmt: skip


def oklab(light):
    """Björn Ottosson's perceptual space; a difference of 0.02 is just seen."""
    to_cones = [[0.4122214708, 0.5363325363, 0.0514459929],
                [0.2119034982, 0.6806995451, 0.1073969566],
                [0.0883024619, 0.2817188376, 0.6299787005]]  # fmt: skip
    to_lab = [[0.2104542553, 0.7936177850, -0.0040720468],
              [1.9779984951, -2.4285922050, 0.4505937099],
              [0.0259040371, 0.7827717662, -0.8086757660]]  # fmt: skip
    return np.asarray(to_lab) @ np.cbrt(np.asarray(to_cones) @ np.clip(light, 0, 1))


@pytest.mark.parametrize("name", THEMES)
def test_the_palette_has_every_category_and_contrast_with_the_page(name):
    page = theme(name)
    assert list(page.categories) == [category.name for category in load_rules().categories]
    assert min(contrast(colour, page.background) for colour in page.categories.values()) >= 3
    assert min(contrast(text, page.background) for text in (page.text, page.muted)) >= 4.5


@pytest.mark.parametrize("sight", SIGHT)
@pytest.mark.parametrize("name", THEMES)
def test_categories_that_meet_in_a_step_are_told_apart_by_everyone(name, sight):
    seen = {
        category: oklab(np.asarray(SIGHT[sight]) @ linear(colour))
        for category, colour in theme(name).categories.items()
    }
    apart = {
        pair: float(np.linalg.norm(seen[pair[0]] - seen[pair[1]]))
        for pair in itertools.combinations(seen, 2)
    }
    assert not [pair for pair, by in apart.items() if by < 0.03]
    usual = {pair: by for pair, by in apart.items() if set(pair) <= set(TOGETHER)}
    assert not [pair for pair, by in usual.items() if by < 0.06]
    assert files.digest("x") == "'sha256-LXEWQrcmsEQBYnyp+6wy9chTD7GQPMTbAiWHF5IaSIE='"
