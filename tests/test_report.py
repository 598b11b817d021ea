"""The report: what is on the page, that it runs nothing foreign, and that a browser draws it."""

import json
import re
import shutil
import subprocess
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import polars as pl
import pytest

import kernelscope
from export_builder import DECODE, ExportBuilder
from exports import exported
from kernelscope.charts.palette import theme
from kernelscope.rendering import report as reports
from kernelscope.rendering.report import Report, render_report

CONFIG = Path(__file__).parent.parent / "fixtures" / "configs" / "qwen35-27b.json"
QWEN = "2023.4/qwen35-27b_b1"
CHROMIUM = next(
    filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None
)
MOST_BYTES = 3_000_000


class Page(HTMLParser):
    """Tags, ids and visible text of a page."""

    def __init__(self, text):
        super().__init__()
        self.tags, self.words, self._inside = [], [], []
        self.feed(text)
        self.text = " ".join(" ".join(self.words).split())

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        self._inside.append(tag)

    def handle_endtag(self, tag):
        self._inside.append(f"/{tag}")

    def handle_data(self, data):
        if self._inside and self._inside[-1] not in ("script", "style"):
            self.words.append(data)

    def all(self, tag):
        return [attributes for name, attributes in self.tags if name == tag]


@pytest.fixture(scope="module")
def qwen():
    path = exported(QWEN)
    summary = kernelscope.summarize(path, layers=True)
    return Report(summary, kernelscope.diagnose(path), kernelscope.roofline(path, CONFIG))


@pytest.fixture(scope="module")
def text(qwen):
    return render_report(qwen)


@pytest.fixture(scope="module")
def page(text):
    return Page(text)


def test_the_page_is_small_and_loads_nothing(text, page):
    assert len(text.encode()) < MOST_BYTES
    assert not [
        tag for tag, attributes in page.tags if {"src", "srcset", "action"} & set(attributes)
    ]
    assert {link["href"] for link in page.all("a")} == {"#main"}
    assert not page.all("link")
    (policy,) = (meta["content"] for meta in page.all("meta") if "http-equiv" in meta)
    assert policy.startswith("default-src 'none'; script-src 'sha256-")
    assert "unsafe" not in policy


def test_the_figures_are_those_of_the_summary(qwen, page):
    # 1,023 kernels per step and 305 multiplies: counted with plain SQL, see test_full_captures.
    assert "kernels per step 1,023 1,596" in page.text
    assert "gemm 305" in page.text
    assert "NVIDIA H200" in page.text
    for finding in qwen.diagnosis.findings:
        assert " ".join(finding.message.split()) in page.text
    kernels = qwen.summary.table("kernel").height
    assert sum("data-value" in cell for cell in page.all("td")) == 3 * kernels


def test_every_chart_has_a_place_and_a_sentence(text, page):
    specs = json.loads(re.search(r'id="specs">(.*?)</script>', text)[1])
    drawn = [div for div in page.all("div") if div.get("class") == "chart"]
    assert [div["id"] for div in drawn] == list(specs)
    assert len(specs) == 2 * 6  # two phases; grid, strip, shares, layers, steps, roofline
    assert all("kernels per step" in div["aria-label"] for div in drawn)


def test_every_colour_has_a_dark_one_in_its_place(text):
    pairs = json.loads(re.search(r'id="dark">(.*?)</script>', text)[1])
    light, dark = theme("light"), theme("dark")
    assert {name: pairs[colour] for name, colour in light.categories.items()} == dark.categories
    specs = re.search(r'id="specs">(.*?)</script>', text)[1]
    assert set(re.findall(r"#[0-9a-f]{6}\b", specs)) <= set(pairs)


def test_only_the_last_part_of_a_path_is_on_the_page(qwen, text):
    assert str(Path(qwen.summary.info.path).parent) not in text
    assert str(CONFIG.parent.parent) not in text


@pytest.fixture(scope="module")
def hostile(qwen):
    """The page of a run whose kernels are named by somebody who means harm."""
    name = "</script><script>window.hurt = 1</script>\x1b[31m<img src=x onerror=hurt()>"
    tables = {
        key: table.with_columns(short_name=pl.lit(name)) if "short_name" in table.columns else table
        for key, table in qwen.summary.tables.items()
    }
    return render_report(replace(qwen, summary=replace(qwen.summary, tables=tables)))


def test_hostile_names_are_text(hostile, page):
    found = Page(hostile)
    assert len(found.all("script")) == len(page.all("script")) == 4
    assert not found.all("img")
    assert "\x1b" not in hostile
    assert "window.hurt = 1" in hostile


def browse(html, tmp_path, *options):
    """The page as a browser has it in the end, and what its console said."""
    path = tmp_path / "page.html"
    path.write_text(html, encoding="utf-8")
    command = [
        CHROMIUM, "--headless", "--no-sandbox", "--disable-gpu", "--enable-logging=stderr",
        f"--user-data-dir={tmp_path / 'profile'}", "--virtual-time-budget=30000", *options,
        "--dump-dom", path.as_uri(),
    ]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, timeout=180, check=False)
    return done.stdout, [line for line in done.stderr.splitlines() if "CONSOLE" in line]


needs_browser = pytest.mark.skipif(CHROMIUM is None, reason="no Chromium is on the path")


@needs_browser
@pytest.mark.parametrize("dark", [False, True])
def test_a_browser_draws_every_chart_without_a_word(text, tmp_path, dark):
    options = ("--blink-settings=preferredColorScheme=0",) if dark else ()
    dom, console = browse(text, tmp_path, *options)
    assert console == []
    assert 'data-drawn="12"' in dom
    assert dom.count('<svg xmlns="http://www.w3.org/2000/svg"') == 12
    # A square for each kernel of the decode step at least, and as many on its time line.
    assert dom.count("<path") > 2 * 1023
    colour = theme("dark" if dark else "light").categories["gemm"]
    assert f'fill="{colour}"' in dom


@needs_browser
def test_a_browser_runs_nothing_that_a_name_says(hostile, tmp_path):
    dom, console = browse(hostile, tmp_path)
    assert console == []
    assert 'data-drawn="12"' in dom
    assert '<img src="x"' not in dom


def test_the_command_writes_the_page(run, tmp_path):
    out = tmp_path / "report.html"
    found = run("report", exported(QWEN), "--model-config", CONFIG, "-o", out)
    assert found.exit_code == 0, found.output
    assert "Roofline" in Page(out.read_text("utf-8")).text
    assert run("report", exported(QWEN), "-o", out).exit_code == 1
    assert run("report", exported(QWEN), "-o", out, "--split-by", "batch").exit_code == 2


def test_what_cannot_be_drawn_is_said(write, run, tmp_path):
    export = ExportBuilder("2024.2").step(DECODE, [("nvjet_a", 5)]).step(DECODE, [("nvjet_a", 5)])
    out = tmp_path / "report.html"
    assert run("report", write(export), "-o", out).exit_code == 0
    assert "No layers are found in decode steps" in Page(out.read_text("utf-8")).text
    assert run("report", write(export), "--steps-by", "none", "-o", out, "--force").exit_code == 0
    assert "no step to show kernel by kernel" in Page(out.read_text("utf-8")).text


def test_definitions_name_what_the_table_of_figures_has():
    defined = {what for what, _ in reports._DEFINITIONS}
    assert {"wall", "span", "kernel time", "busy", "idle"} <= defined
