"""A summary in every form: the same numbers, safe to print, worded with care."""

import csv
import io
import json
import re
import sqlite3
from contextlib import closing
from dataclasses import replace

import polars as pl
import pyarrow.parquet
import pytest
from rich.cells import cell_len
from rich.console import Console

import kernelscope
from export_builder import DECODE, LAUNCH, PREFILL, ExportBuilder
from kernelscope.errors import OutputError
from kernelscope.findings import Finding
from kernelscope.rendering import BINARY_FORMATS, FORMATS, render, wording, write_summary
from kernelscope.rendering.text import print_summary
from kernelscope.summary import TABLES, Spread

BY = ("category", "family", "kernel")
TEXT_FORMATS = sorted(set(FORMATS) - BINARY_FORMATS)

# The keys that the issue documents; more may be added, none may go.
KEYS = {
    "kernelscope_version",
    "rules_version",
    "trace",
    "step_method",
    "phases",
    "outside_steps",
    "warnings",
}
TRACE_KEYS = {"path", "exporter", "schema", "gpus", "graph_trace"}
PHASE_KEYS = {
    "phase",
    "steps",
    "incomplete_steps",
    "kernels_per_step",
    "wall_ms",
    "span_ms",
    "kernel_ms",
    "busy_ms",
    "idle_ms",
    "launch_calls_per_step",
    "tokens_per_s",
    "largest_kernel",
    "categories",
}
CATEGORY_KEYS = {"category", "family", "kernels_per_step", "kernel_ms", "share"}

ESCAPE, BELL, CSI, RIGHT_TO_LEFT = "\x1b[31m", "\x07", "\x9b31m", "\u202e"
HOSTILE = f"evil{ESCAPE}{BELL}{CSI}{RIGHT_TO_LEFT}<script>alert(1)</script>|`*_[x](y)\nsecond"


@pytest.fixture
def summary(run_summary):
    return run_summary


@pytest.fixture(scope="module")
def hostile(tmp_path_factory):
    export = ExportBuilder("2024.2").gpu(0, HOSTILE)
    for _ in range(2):
        export.step(DECODE, [(HOSTILE, 5), ("nvjet_a", 3)])
    return kernelscope.summarize(export.write(tmp_path_factory.mktemp("run") / "t.sqlite"))


@pytest.fixture(scope="module")
def opaque(tmp_path_factory):
    export = ExportBuilder("2024.2")
    for _ in range(3):
        export.step(DECODE, [("rms_norm_kernel", 10)], replay=90)
    return kernelscope.summarize(export.write(tmp_path_factory.mktemp("run") / "t.sqlite"))


def printed(summary, by="category", **options):
    out = io.StringIO()
    print_summary(summary, by, Console(file=out, **options))
    return out.getvalue()


# JSON


def test_json_has_every_documented_key(summary):
    plain = json.loads(render(summary, "json"))
    assert set(plain) >= KEYS
    assert set(plain["trace"]) >= TRACE_KEYS
    for phase in plain["phases"]:
        assert set(phase) >= PHASE_KEYS
        assert set(phase["kernels_per_step"]) >= {"median", "min", "max"}
        assert set(phase["wall_ms"]) >= {"median", "p10", "p90", "min", "max"}
        for row in phase["categories"]:
            assert set(row) >= CATEGORY_KEYS


def test_json_holds_the_summarys_numbers(summary):
    plain = json.loads(render(summary, "json"))
    decode = plain["phases"][0]
    assert (decode["phase"], decode["steps"], decode["incomplete_steps"]) == ("decode", 3, 0)
    assert decode["kernels_per_step"] == {"median": 4, "min": 4, "max": 4}
    assert decode["wall_ms"]["median"] == pytest.approx(0.1)
    assert [(row["category"], row["share"]) for row in decode["categories"]] == [
        ("gemm", pytest.approx(0.7)),
        ("norm", pytest.approx(0.3)),
    ]
    assert plain["trace"]["gpus"] == ["NVIDIA H200"]
    assert plain["trace"]["graph_trace"] == "node"
    assert plain["outside_steps"]["kernels"] == 1
    assert plain["step_method"] == "nvtx"


@pytest.mark.parametrize(
    ("by", "key", "column"),
    [
        ("category", "categories", "category"),
        ("family", "families", "family"),
        ("kernel", "kernels", "name"),
    ],
)
def test_json_names_its_rows_by_what_they_stand_for(by, key, column, summary):
    decode = json.loads(render(summary, "json", by=by))["phases"][0]
    assert len(decode[key]) == summary.only("decode").table(by).height
    assert all(column in row for row in decode[key])


def test_json_has_null_for_what_does_not_exist(summarize, export):
    export.step(DECODE, [("nvjet_a", 5)])
    text = render(summarize(export), "json")
    decode = json.loads(text)["phases"][0]
    assert decode["wall_ms"] is None
    assert decode["tokens_per_s"] is None
    assert "NaN" not in text


def test_json_of_a_summary_without_phases_is_json(summarize, export):
    export.step(DECODE)
    export.kernel("nvjet_a", 10, 5, export.call(LAUNCH, 1))
    assert json.loads(render(summarize(export), "json"))["phases"] == []


def test_json_keeps_other_scripts_readable(tmp_path, run_export):
    path = run_export.write(tmp_path / "日本.sqlite")
    assert "日本" in render(kernelscope.summarize(path), "json")


# CSV, Parquet, SQLite


@pytest.mark.parametrize("by", BY)
def test_csv_is_the_table_with_a_header(by, summary):
    rows = list(csv.DictReader(io.StringIO(render(summary, "csv", by=by))))
    table = summary.table(by)
    assert list(rows[0]) == table.columns
    assert len(rows) == table.height
    assert [float(row["share"]) for row in rows] == pytest.approx(table["share"].to_list())


@pytest.mark.parametrize("by", BY)
def test_parquet_is_the_table_and_knows_its_origin(by, summary):
    read = pyarrow.parquet.read_table(io.BytesIO(render(summary, "parquet", by=by)))
    assert pl.from_arrow(read).equals(summary.table(by))
    metadata = read.schema.metadata
    assert metadata[b"kernelscope_version"] == kernelscope.__version__.encode()
    assert metadata[b"rules_version"] == summary.rules_version.encode()
    assert metadata[b"trace"] == summary.info.path.encode()
    assert metadata[b"step_method"] == b"nvtx"


def test_sqlite_holds_the_run_its_phases_and_every_table(summary, tmp_path):
    path = tmp_path / "summary.sqlite"
    path.write_bytes(render(summary, "sqlite"))
    with closing(sqlite3.connect(path)) as database:
        tables = {
            name
            for (name,) in database.execute("SELECT name FROM sqlite_master WHERE type = 'table'")
        }
        assert tables >= {"run", "phase", *TABLES}
        assert database.execute(
            "SELECT steps, wall_ms_median FROM phase WHERE phase = 'decode'"
        ).fetchall() == [(3, pytest.approx(0.1))]
        assert database.execute(
            "SELECT share FROM category WHERE phase = 'decode' AND category = 'gemm'"
        ).fetchall() == [(pytest.approx(0.7),)]


# Text and Markdown


@pytest.mark.parametrize("format_", ["text", "markdown"])
def test_reports_say_the_figures_a_user_asks_for(format_, summary):
    text = render(summary, format_).replace("\\_", "_")
    for promised in (
        "decode",
        "3 steps",
        "NVIDIA H200",
        "2024.2.3.38",
        "gemm",
        "70.0 %",
        "0.100",
        "of kernel time" if format_ == "text" else "share of kernel time",
        summary.rules_version,
        "nvjet_a",
        "launched before the first step",
    ):
        assert promised in text, promised


@pytest.mark.parametrize("format_", ["text", "markdown"])
def test_reports_show_warnings(format_, opaque):
    assert "--cuda-graph-trace=node" in render(opaque, format_).replace("\\", "")


@pytest.mark.parametrize("format_", ["text", "markdown"])
def test_reports_count_steps_in_no_average(format_, summarize, export):
    for kernels in (2, 2, 1):
        export.step(DECODE, [("nvjet_a", 5)] * kernels)
    text = render(summarize(export), format_)
    assert "1 decode step" in text
    assert "cut by the end of the capture" in text


@pytest.mark.parametrize("width", [80, 100, 160])
@pytest.mark.parametrize("by", BY)
def test_no_line_is_wider_than_the_terminal(by, width, summarize):
    export = ExportBuilder("2024.2").gpu(0, "NVIDIA H200")
    long = "void at::native::(anonymous namespace)::" + "very_long_kernel_name_" * 9
    for _ in range(3):
        export.step(DECODE, [(long, 5), ("nvjet_" + "x" * 150, 4)], graph=[("rms_norm_kernel", 1)])
    lines = printed(summarize(export), by, width=width, color_system=None).splitlines()
    assert max(cell_len(line) for line in lines) <= width


@pytest.mark.parametrize("width", [80, 100])
def test_no_figure_is_cut_off_in_a_narrow_terminal(width, summary):
    text = printed(summary, width=width, color_system=None)
    for promised in ("kernels per step", "0.100 ms", "70.0 %", "10,000.0"):
        assert promised in text, promised


@pytest.mark.parametrize("by", BY)
def test_a_pipe_gets_no_escape_sequences(by, summary):
    assert "\x1b" not in render(summary, "text", by=by)


def test_a_terminal_gets_colours_unless_asked_not_to(summary, monkeypatch):
    terminal = {"force_terminal": True, "width": 100, "color_system": "standard"}
    monkeypatch.delenv("NO_COLOR", raising=False)
    assert re.search(r"\x1b\[[0-9;]*3[0-7]m", printed(summary, **terminal))
    monkeypatch.setenv("NO_COLOR", "1")
    assert not re.search(r"\x1b\[[0-9;]*3[0-7]m", printed(summary, **terminal))


def test_nothing_is_said_by_colour_alone(summary, monkeypatch):
    monkeypatch.delenv("NO_COLOR", raising=False)
    coloured = printed(summary, force_terminal=True, width=100, color_system="standard")
    assert re.sub(r"\x1b\[[0-9;]*m", "", coloured) == printed(summary, width=100)


def test_an_ascii_terminal_gets_ascii_bars(summary):
    out = io.TextIOWrapper(io.BytesIO(), encoding="ascii", errors="replace")
    console = Console(file=out, width=100, color_system=None)
    print_summary(summary, "category", console)
    out.flush()
    assert b"####" in out.buffer.getvalue()


def test_the_markdown_tables_are_well_formed(summary):
    rows = [line for line in render(summary, "markdown").splitlines() if line.startswith("|")]
    assert len(rows) > 10
    for row in rows:
        assert re.sub(r"\\.", "", row).count("|") in (4, 5)


def test_shares_of_a_partly_opaque_phase_are_lower_bounds(opaque):
    for format_ in ("text", "markdown"):
        text = render(opaque, format_)
        assert "≥ 10.0 %" in text
        assert "90.0 %" in text
        assert "≥ 90.0 %" not in text


# Text from a trace is data, whatever it holds


@pytest.mark.parametrize("by", BY)
@pytest.mark.parametrize("format_", TEXT_FORMATS)
def test_no_control_character_of_a_name_reaches_the_output(format_, by, hostile):
    text = render(hostile, format_, by=by)
    for character in (ESCAPE[0], BELL, CSI[0], RIGHT_TO_LEFT):
        assert character not in text


@pytest.mark.parametrize("by", BY)
def test_a_terminal_gets_no_control_character_of_a_name(by, hostile):
    text = printed(hostile, by, force_terminal=True, width=100, color_system="standard")
    assert "\x1b[31mevil" not in text
    assert not re.search(r"\x1b(?!\[[0-9;]*m)", text)
    for character in (BELL, CSI[0], RIGHT_TO_LEFT):
        assert character not in text


@pytest.mark.parametrize("by", BY)
@pytest.mark.parametrize("name", ["[bold red]kernel", "kernel[/]", "[/]"])
def test_markup_in_a_name_is_only_text(name, by, summary):
    named = renamed(summary, name)
    rows = named.only("decode").table(by).height
    # In the table of figures, in every row of shares, and in the warning.
    assert render(named, "text", by=by).count(name) == rows + 2


def renamed(summary, name):
    """The decode phase of a summary with everything in it called ``name``."""
    decode = summary.phase("decode")
    largest = replace(decode.largest_kernel, short_name=name)
    tables = {
        **summary.tables,
        "kernel": summary.table("kernel").with_columns(short_name=pl.lit(name)),
        "category": summary.table("category").with_columns(category=pl.lit(name)),
        "family": summary.table("family").with_columns(family=pl.lit(name)),
    }
    phases = (replace(decode, largest_kernel=largest),)
    return replace(
        summary, phases=phases, tables=tables, findings=(Finding("names", "warning", name),)
    )


@pytest.mark.parametrize("by", BY)
@pytest.mark.parametrize(
    "name", ["a|b", "<script>alert(1)</script>", "[x](y)", "`|`", "a\\|b", "a\nb"]
)
def test_html_and_markdown_of_a_name_are_inert(name, by, summary):
    text = render(renamed(summary, name), "markdown", by=by)
    assert "<" not in text
    assert "[x](y)" not in text
    tables = tables_of(text)
    assert len(tables) == 2
    for table in tables:
        assert len({cells(row) for row in table}) == 1


def tables_of(markdown):
    """The tables of a page, each as its lines."""
    return [table.splitlines() for table in re.findall(r"(?:^\|.*\n)+", markdown, re.MULTILINE)]


def cells(row):
    """How many cells a Markdown reader sees: pipes that no backslash escapes."""
    return len(re.findall(r"(?<!\\)(?:\\\\)*\|", row)) - 1


def test_json_gives_a_hostile_name_back_whole(hostile):
    kernels = json.loads(render(hostile, "json", by="kernel"))["phases"][0]["kernels"]
    assert kernels[0]["name"] == HOSTILE


def test_parquet_gives_a_hostile_name_back_whole(hostile):
    data = render(hostile, "parquet", by="kernel")
    assert HOSTILE in pl.read_parquet(io.BytesIO(data))["name"].to_list()


@pytest.mark.parametrize("format_", sorted(FORMATS))
def test_a_path_with_odd_characters_is_shown_in_every_form(format_, tmp_path, run_export):
    path = run_export.write(tmp_path / "a|b <c> #d%.sqlite")
    assert render(kernelscope.summarize(path), format_)


# Wording


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (0, "0.0 %"),
        (1, "100.0 %"),
        (0.882, "88.2 %"),
        (1e-9, "<0.1 %"),
        (0.0004, "<0.1 %"),
        (0.0006, "0.1 %"),
        (0.9994, "99.9 %"),
        (0.9996, ">99.9 %"),
        (1 - 1e-9, ">99.9 %"),
    ],
)
def test_a_share_is_0_or_100_percent_only_if_it_is_exactly_that(value, shown):
    assert wording.share(value) == shown


@pytest.mark.parametrize(
    ("value", "shown"), [(0.5, "≥ 50.0 %"), (0, "0.0 %"), (0.0001, "> 0 %"), (0.9999, ">99.9 %")]
)
def test_a_lower_bound_is_worded_so_that_it_can_be_true(value, shown):
    assert wording.share(value, is_lower_bound=True) == shown


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (None, "–"),
        (0, "0.000"),
        (0.0148, "0.015"),
        (9.9994, "9.999"),
        (14.805, "14.80"),
        (1234.56, "1,234.6"),
        (0.0001, "<0.001"),
    ],
)
def test_milliseconds(value, shown):
    assert wording.milliseconds(value) == shown


@pytest.mark.parametrize(
    ("value", "shown"),
    [(1023, "1,023"), (15.42, "15.4"), (0, "0"), (0.03, "<0.1"), (2.9999, "3.0")],
)
def test_counts(value, shown):
    assert wording.count(value) == shown


def test_a_spread_shows_its_percentiles(summary):
    wall = Spread(15.45, 15.43, 15.47, 15.0, 16.0)
    facts = {what: rest for what, *rest in wording.facts(replace(summary.phases[0], wall_ms=wall))}
    assert facts["wall"][0] == "15.45 ms"
    assert facts["wall"][1].startswith("median (p10 15.43, p90 15.47)")


@pytest.mark.parametrize("width", [12, 13, 30])
def test_a_long_kernel_name_keeps_both_its_ends(width):
    shown = wording.shorten("nvjet_sm90_tst_384x8_64x4_4x1_v_bz_TNT", width)
    assert len(shown) == width
    assert shown.startswith("nvjet")
    assert shown.endswith("z_TNT")


@pytest.mark.parametrize("width", [80, 100])
def test_figures_of_long_kernel_names_are_whole(width, summarize, export):
    export.step(DECODE, [("triton_red_fused_" + "_to_copy_add" * 12, 5), ("nvjet_a", 3)])
    text = printed(summarize(export), "kernel", width=width, color_system=None)
    for figure in ("per step", "ms/step", "of kernel time", "62.5 %", "37.5 %", "0.005", "0.003"):
        assert figure in text, figure


@pytest.mark.parametrize(
    "bad", ["\x00", "\x1b", "\x7f", "\x9b", "\u200b", "\u202e", "\u2028", "\ud800"]
)
def test_clean_replaces_what_a_terminal_would_act_on(bad):
    assert wording.clean(f"a{bad}b") == "a\ufffdb"


def test_clean_keeps_everything_else():
    text = "void f<(int)128>(T1 const&) é日本 🙂"
    assert wording.clean(text) == text


# Every form at once; writing


def test_there_are_the_promised_formats():
    assert set(FORMATS) == {"text", "json", "csv", "markdown", "parquet", "sqlite"}


@pytest.mark.parametrize("by", BY)
@pytest.mark.parametrize("format_", sorted(FORMATS))
def test_every_format_renders_every_kind_of_row_twice_alike(format_, by, summary):
    rendered = render(summary, format_, by=by)
    assert isinstance(rendered, bytes) == (format_ in BINARY_FORMATS)
    assert render(summary, format_, by=by) == rendered


@pytest.mark.parametrize("format_", sorted(FORMATS))
def test_every_format_shows_a_trace_without_steps(format_, summarize, export):
    export.kernel("nvjet_a", 10, 5)
    assert render(summarize(export), format_)


@pytest.mark.parametrize("format_", sorted(FORMATS))
def test_every_format_shows_a_summary_without_phases(format_, summarize, export):
    export.step(DECODE)
    export.kernel("nvjet_a", 10, 5, export.call(LAUNCH, 1))
    assert render(summarize(export), format_) is not None


def test_several_ranks_are_told_apart_in_the_report(summarize, export):
    for pid in (10, 20):
        export.step(PREFILL, [("nvjet_a", 5)], pid=pid)
    text = render(summarize(export), "text")
    assert "rank 0 (pid 10, device 0)" in text
    assert "rank 1 (pid 20, device 0)" in text


@pytest.mark.parametrize("format_", sorted(FORMATS))
def test_written_files_hold_what_render_gives(format_, summary, tmp_path):
    path = tmp_path / "out"
    write_summary(summary, path, format_)
    expected = render(summary, format_)
    assert path.read_bytes() == (expected.encode() if isinstance(expected, str) else expected)


def test_an_existing_file_is_kept(summary, tmp_path):
    path = tmp_path / "out.json"
    path.write_text("mine")
    with pytest.raises(OutputError, match=r"out\.json exists.*--force"):
        write_summary(summary, path)
    assert path.read_text() == "mine"
    write_summary(summary, path, overwrite=True)
    assert json.loads(path.read_text())


def test_a_folder_that_is_not_there_is_explained(summary, tmp_path):
    with pytest.raises(OutputError, match="cannot be written"):
        write_summary(summary, tmp_path / "no" / "out.json")


def test_a_failed_write_leaves_nothing_behind(summary, tmp_path, monkeypatch):
    def fail(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("pathlib.Path.replace", fail)
    with pytest.raises(OutputError, match="No space left"):
        write_summary(summary, tmp_path / "out.json")
    assert list(tmp_path.iterdir()) == []


def test_the_trace_itself_is_never_overwritten(summarize, run_export):
    summary = summarize(run_export)
    with pytest.raises(OutputError):
        write_summary(summary, summary.info.path, overwrite=True)


@pytest.mark.parametrize(("format_", "by"), [("xml", "category"), ("json", "colour")])
def test_an_unknown_format_or_row_is_a_key_error(format_, by, summary):
    with pytest.raises(KeyError):
        render(summary, format_, by=by)
