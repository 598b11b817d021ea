"""The command line: options reach the library; exit codes; standard output against error."""

import json
import os
import pty
import re
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import polars as pl
import pytest

import kernelscope
from export_builder import DECODE
from kernelscope.commands import options
from kernelscope.commands import summarize as command
from kernelscope.rendering import BINARY_FORMATS, FORMATS, render
from kernelscope.steps import METHODS
from kernelscope.summary import TABLES
from kernelscope.summary.phases import PHASES

TEXT_FORMATS = sorted(set(FORMATS) - BINARY_FORMATS)


@pytest.fixture(scope="module")
def trace(run_summary):
    """The export behind ``run_summary``; tests only read it."""
    return Path(run_summary.info.path)


@pytest.fixture
def program():
    """Runs the program as a process of its own."""

    def start(*arguments, **options):
        return subprocess.run(
            [sys.executable, "-m", "kernelscope", *map(str, arguments)],
            check=False,
            **{"capture_output": True, "text": True, **options},
        )

    return start


# The lists that the command line keeps so as not to import polars for --help


def test_the_formats_are_the_librarys():
    assert set(command.FORMATS) == set(FORMATS)


def test_the_kinds_of_row_are_the_librarys():
    assert set(command.BY) - {"layer"} <= set(TABLES)


def test_the_ways_to_find_steps_are_the_librarys():
    assert list(options.STEP_METHODS) == ["auto", *METHODS, "none"]


def test_the_phases_are_the_librarys():
    assert set(command.PHASES) == set(PHASES)


# Output


@pytest.mark.parametrize("by", ["category", "family", "kernel"])
@pytest.mark.parametrize("format_", TEXT_FORMATS)
def test_standard_output_is_what_the_library_renders(format_, by, run, trace, run_summary):
    result = run("summarize", trace, "--format", format_, "--by", by)
    assert result.exit_code == 0
    assert result.stdout == render(run_summary, format_, by=by)
    assert result.stderr == ""


def test_text_by_category_is_the_default(run, trace, run_summary):
    assert run("summarize", trace).stdout == render(run_summary, "text")


def test_warnings_do_not_break_the_data_on_standard_output(run, write, export):
    export.kernel("zzz_unknown", 10, 5)
    result = run("summarize", write(export), "--format", "json")
    assert json.loads(result.stdout)["warnings"]


@pytest.mark.parametrize("phase", ["decode", "prefill"])
def test_phase_keeps_only_that_phase(phase, run, trace):
    plain = json.loads(run("summarize", trace, "--phase", phase, "--format", "json").stdout)
    assert [found["phase"] for found in plain["phases"]] == [phase]


def test_a_phase_without_complete_steps_is_an_error_that_names_the_others(run, trace):
    result = run("summarize", trace, "--phase", "mixed")
    assert result.exit_code == 1
    assert result.stdout == ""
    assert "no complete mixed step" in result.stderr
    assert "decode, prefill" in result.stderr
    assert result.stderr.count("\n") == 1


@pytest.mark.parametrize("format_", sorted(FORMATS))
def test_output_goes_to_the_file_and_a_note_to_standard_error(
    format_, run, trace, run_summary, tmp_path
):
    path = tmp_path / "out"
    result = run("summarize", trace, "--format", format_, "-o", path)
    assert result.exit_code == 0
    assert result.stdout == ""
    assert result.stderr == f"wrote {path}\n"
    expected = render(run_summary, format_)
    assert path.read_bytes() == (expected.encode() if isinstance(expected, str) else expected)


def test_parquet_can_be_read_back(run, trace, run_summary, tmp_path):
    path = tmp_path / "out.parquet"
    run("summarize", trace, "--format", "parquet", "--by", "kernel", "-o", path)
    assert pl.read_parquet(path).equals(run_summary.table("kernel"))


def test_sqlite_can_be_read_back(run, trace, tmp_path):
    path = tmp_path / "out.sqlite"
    run("summarize", trace, "--format", "sqlite", "-o", path)
    with closing(sqlite3.connect(path)) as database:
        assert database.execute("SELECT count(*) FROM step").fetchone() == (4,)


@pytest.mark.parametrize("format_", sorted(BINARY_FORMATS))
def test_binary_formats_need_a_file(format_, run, trace):
    result = run("summarize", trace, "--format", format_)
    assert result.exit_code == 2
    assert result.stdout == ""
    assert "give its name with -o" in result.stderr


def test_an_existing_file_is_kept_unless_forced(run, trace, tmp_path):
    path = tmp_path / "out.json"
    path.write_text("mine")
    refused = run("summarize", trace, "--format", "json", "-o", path)
    assert refused.exit_code == 1
    assert f"{path} exists" in refused.stderr
    assert "--force" in refused.stderr
    assert path.read_text() == "mine"
    assert run("summarize", trace, "--format", "json", "-o", path, "--force").exit_code == 0
    assert json.loads(path.read_text())["step_method"] == "nvtx"


def test_the_trace_is_not_overwritten_even_if_forced(run, write, run_export):
    trace = write(run_export)
    before = trace.read_bytes()
    assert run("summarize", trace, "-o", trace, "--force").exit_code == 1
    assert trace.read_bytes() == before


# Usage


@pytest.mark.parametrize(
    "arguments",
    [
        ["summarize"],
        ["summarize", "a.sqlite", "b.sqlite"],
        ["summarize", "a.sqlite", "--format", "xml"],
        ["summarize", "a.sqlite", "--by", "colour"],
        ["summarize", "a.sqlite", "--phase", "warm-up"],
        ["summarize", "a.sqlite", "--no-such-option"],
        ["no-such-command"],
    ],
)
def test_wrong_usage_is_exit_code_2_on_standard_error(arguments, run):
    result = run(*arguments)
    assert result.exit_code == 2
    assert result.stdout == ""
    assert "Usage:" in result.stderr


@pytest.mark.parametrize("flag", ["-h", "--help"])
def test_help_shows_an_example(flag, run):
    result = run("summarize", flag)
    assert result.exit_code == 0
    assert "Example: kernelscope summarize trace.sqlite" in result.stdout
    for option in ("--format", "--output", "--phase", "--by", "--force"):
        assert option in result.stdout


def test_version(run):
    assert run("--version").stdout == f"kernelscope, version {kernelscope.__version__}\n"


# As a process


def test_the_module_runs_as_a_program(program, trace):
    done = program("summarize", trace, "--format", "json")
    assert done.returncode == 0
    assert json.loads(done.stdout)["step_method"] == "nvtx"
    assert done.stderr == ""


@pytest.mark.parametrize("format_", ["json", "text"])
def test_a_reader_that_closes_early_gets_no_traceback(format_, write, export):
    for number in range(300):
        export.step(DECODE, [(f"kernel_{number}_{'x' * 300}", 5)])
    arguments = ["summarize", str(write(export)), "--by", "kernel", "--format", format_]
    with subprocess.Popen(
        [sys.executable, "-m", "kernelscope", *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        process.stdout.close()
        assert process.stderr.read() == ""
        assert process.wait() == 0


@pytest.mark.parametrize(("format_", "encoding"), [("text", "latin-1"), ("markdown", "ascii")])
def test_an_output_that_cannot_show_a_character_gets_no_traceback(
    format_, encoding, program, trace
):
    environment = {**os.environ, "PYTHONIOENCODING": encoding}
    done = program("summarize", trace, "--format", format_, env=environment, text=False)
    assert done.stderr == b""
    assert done.returncode == 0


@pytest.mark.parametrize("format_", TEXT_FORMATS)
def test_a_path_that_is_not_utf8_gets_no_traceback(format_, run_export, run, tmp_path):
    path = run_export.write(os.fsdecode(os.fsencode(tmp_path) + b"/\xff.sqlite"))
    result = run("summarize", path, "--format", format_, "-o", tmp_path / "out")
    assert result.exit_code == 0, result.exception
    text = (tmp_path / "out").read_text("utf-8")
    shown = {
        "text": "\ufffd.sqlite",
        "markdown": "\ufffd.sqlite",
        "json": "\\udcff.sqlite",
        "csv": "",
    }
    assert shown[format_] in text


def on_a_terminal(arguments, columns, **environment):
    """What the program shows on a terminal of that many columns."""
    main, worker = pty.openpty()
    with subprocess.Popen(
        [sys.executable, "-m", "kernelscope", *map(str, arguments)],
        stdout=worker,
        stderr=worker,
        stdin=worker,
        env={**os.environ, "TERM": "xterm-256color", "COLUMNS": str(columns), **environment},
    ) as process:
        os.close(worker)
        shown = b""
        while True:
            try:
                piece = os.read(main, 65536)
            except OSError:  # Linux: the other side has closed
                break
            if not piece:
                break
            shown += piece
        os.close(main)
    assert process.returncode == 0
    return shown.decode()


COLOUR = re.compile(r"\x1b\[[0-9;]*3[0-7]m")


def test_a_terminal_gets_colour_and_its_own_width(trace, monkeypatch):
    monkeypatch.delenv("NO_COLOR", raising=False)
    shown = on_a_terminal(["summarize", trace], columns=80)
    assert COLOUR.search(shown)
    plain = re.sub(r"\x1b\[[0-9;]*m", "", shown)
    assert max(len(line.rstrip("\r")) for line in plain.split("\n")) <= 80
    assert "70.0 %" in plain


def test_no_color_is_respected(trace):
    shown = on_a_terminal(["summarize", trace], columns=100, NO_COLOR="1")
    assert not COLOUR.search(shown)
    assert "70.0 %" in shown


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_shell_is_told_how_to_complete(run, shell):
    # As docs/index.md says.
    done = run(prog_name="kernelscope", env={"_KERNELSCOPE_COMPLETE": f"{shell}_source"})
    assert "_KERNELSCOPE_COMPLETE" in done.output
    assert "kernelscope" in done.output
