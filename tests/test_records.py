"""The record of runs: what is written, what stays as it is, older databases, two writers."""

import csv
import io
import json
import multiprocessing
import re
import sqlite3
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import polars as pl
import pytest

import kernelscope
from conftest import small_run
from export_builder import DECODE, ExportBuilder
from kernelscope.commands.history import FORMATS, PHASES
from kernelscope.errors import PhaseNotFound, RecordError
from kernelscope.records import check_record
from kernelscope.records.rows import run_id
from kernelscope.records.schema import MIGRATIONS, VERSION
from kernelscope.rendering.history import HISTORY_FORMATS, render_text, sparkline
from kernelscope.summary.tables import PHASES as SHOWN_PHASES

FIXTURE = Path(__file__).parent.parent / "fixtures" / "exports" / "2023.4" / "qwen35-27b_b1.sqlite"


@pytest.fixture
def db(tmp_path):
    return tmp_path / "runs.db"


def rows(path, sql, *values):
    with closing(sqlite3.connect(path)) as connection:
        return connection.execute(sql, values).fetchall()


def dump(path):
    with closing(sqlite3.connect(path)) as connection:
        return list(connection.iterdump())


def slower_run(gemm_us):
    """One decode step whose multiply takes that long."""
    export = ExportBuilder("2024.2").gpu(0, "NVIDIA H200").graph_mode("Node").window(2_000)
    for _ in range(3):
        export.step(DECODE, [("nvjet_a", gemm_us), ("rms_norm_kernel", 10)])
    return export


# What is written


def test_a_run_has_rows_in_every_table(run_summary, db):
    done = kernelscope.record(run_summary, db, labels={"engine": "0.12", "nightly": ""})
    assert done.outcome == "added"
    assert rows(db, "SELECT id, trace, gpus, ranks, labels FROM runs") == [
        (done.run_id, "trace0.sqlite", "NVIDIA H200", 1, "engine=0.12 nightly")
    ]
    # small_run: of three decode steps the last has no successor; 4 kernels, 10 of them us.
    ((kernels, kernel_ms),) = rows(
        db, "SELECT kernels_per_step_median, kernel_ms FROM phases WHERE phase = 'decode'"
    )
    assert kernels == 4
    assert kernel_ms == pytest.approx(0.010)
    # By hand: nvjet 5 + 2 us, norms 1 + 2 us.
    found = rows(
        db,
        "SELECT category, categories.kernel_ms FROM categories JOIN phases ON phases.id = phase_id"
        " WHERE phase = 'decode' ORDER BY 2 DESC",
    )
    assert [name for name, _ in found] == ["gemm", "norm"]
    assert [ms for _, ms in found] == pytest.approx([0.007, 0.003])
    assert rows(db, "SELECT count(*) FROM steps") == [(4,)]
    assert rows(db, "SELECT key, value FROM labels ORDER BY 1") == [
        ("engine", "0.12"),
        ("nightly", ""),
    ]
    assert rows(db, "PRAGMA foreign_key_check") == []


def test_everything_in_a_summary_of_a_real_trace_is_found_again(db):
    summary = kernelscope.summarize(FIXTURE)
    kernelscope.record(summary, db)
    for table, plural in (("category", "categories"), ("kernel", "kernels")):
        keys = ["rank", "phase", "category", *(["name", "pair"] if table == "kernel" else [])]
        there = summary.table(table)
        assert rows(db, f"SELECT count(*), sum(kernel_ms) FROM {plural}") == [
            (there.select(keys).n_unique(), pytest.approx(there["kernel_ms"].sum()))
        ]
    assert rows(db, "SELECT count(*) FROM steps") == [(summary.table("step").height,)]
    assert rows(db, "SELECT count(*) FROM phases") == [(len(summary.phases),)]


def test_labels_gpus_and_traces_are_found_by_their_words(run_summary, db):
    kernelscope.record(run_summary, db, labels={"branch": "fused-norm"})
    search = "SELECT count(*) FROM runs_fts WHERE runs_fts MATCH ?"
    assert [rows(db, search, word)[0][0] for word in ("fused", "h200", "trace0", "other")] == [
        1,
        1,
        1,
        0,
    ]
    kernelscope.record(run_summary, db, labels={"branch": "other"})
    assert [rows(db, search, word)[0][0] for word in ("fused", "other")] == [0, 1]


# Again


def test_the_same_trace_twice_changes_nothing(run_summary, db):
    kernelscope.record(run_summary, db, labels={"nightly": ""})
    before = dump(db)
    assert kernelscope.record(run_summary, db).outcome == "unchanged"
    assert kernelscope.record(run_summary, db, labels={"nightly": ""}).outcome == "unchanged"
    assert dump(db) == before


def test_new_rules_replace_the_rows_of_a_run(db, write, run_export):
    trace = write(run_export)
    rules = trace.parent / "mine.toml"
    rules.write_text(
        '[[rule]]\nid = "mine"\ncategory = "moe_gemm"\n'
        'pattern = "^nvjet_a"\nexamples = ["nvjet_a"]\n'
    )
    first = kernelscope.record(kernelscope.summarize(trace), db, labels={"a": "1"})
    table = kernelscope.load_rules(rules)
    again = kernelscope.record(kernelscope.summarize(trace, rules=table), db, labels={"b": "2"})
    assert (again.run_id, again.outcome) == (first.run_id, "updated")
    assert rows(db, "SELECT number, labels, rules_version FROM runs") == [
        (1, "a=1 b=2", table.version)
    ]
    categories = {name for (name,) in rows(db, "SELECT category FROM categories")}
    assert categories == {"moe_gemm", "gemm", "norm"}
    assert rows(db, "SELECT count(*) FROM steps") == [(4,)]
    assert rows(db, "PRAGMA foreign_key_check") == []


def test_a_label_of_the_same_key_is_replaced(run_summary, db):
    kernelscope.record(run_summary, db, labels={"engine": "0.11"})
    assert kernelscope.record(run_summary, db, labels={"engine": "0.12"}).outcome == "updated"
    assert rows(db, "SELECT labels FROM runs") == [("engine=0.12",)]


def test_a_run_is_known_by_its_capture(summarize, run_export):
    first, second = summarize(run_export), summarize(small_run())
    assert first.info.path != second.info.path
    assert run_id(first) == run_id(second)
    assert run_id(summarize(slower_run(30))) != run_id(summarize(slower_run(31)))


# The file


def test_a_database_of_version_1_gets_labels_and_search_and_keeps_its_rows(run_summary, db):
    """tests/records_version_1.sql is such a database: one run, phase, category and step."""
    old = (Path(__file__).parent / "records_version_1.sql").read_text("utf-8")
    with closing(sqlite3.connect(db)) as connection:
        connection.executescript(old)
    assert check_record(db) == 1
    (found,) = kernelscope.history(db, category="gemm").to_dicts()
    assert (found["run"], found["category_ms"], found["labels"]) == ("0123456789abcdef", 13.0, None)
    assert check_record(db) == VERSION
    assert rows(db, "SELECT trace FROM runs_fts WHERE runs_fts MATCH 'monday'") == [
        ("monday.sqlite",)
    ]
    assert kernelscope.record(run_summary, db, labels={"new": ""}).outcome == "added"
    assert kernelscope.history(db).height == 2


def test_each_version_leads_to_the_tables_of_a_new_database(run_summary, db, tmp_path):
    kernelscope.record(run_summary, db)
    for version in range(1, VERSION):
        old = tmp_path / f"version{version}.db"
        with closing(sqlite3.connect(old)) as connection:
            for statement in (each for step in MIGRATIONS[:version] for each in step):
                connection.execute(statement)
            connection.execute(f"PRAGMA user_version = {version}")
            connection.execute(f"PRAGMA application_id = {0x6B73636F}")
        kernelscope.record(run_summary, old)
        schema = "SELECT name, sql FROM sqlite_master ORDER BY name"
        assert rows(old, schema) == rows(db, schema)


def test_a_database_of_a_later_release_is_refused_and_left_alone(run_summary, db):
    kernelscope.record(run_summary, db)
    with closing(sqlite3.connect(db)) as connection:
        connection.execute(f"PRAGMA user_version = {VERSION + 1}")
    before = db.read_bytes()
    for use in (lambda: kernelscope.record(run_summary, db), lambda: kernelscope.history(db)):
        with pytest.raises(RecordError, match=rf"version {VERSION + 1}.*knows {VERSION}.*newer"):
            use()
    assert db.read_bytes() == before


def test_what_is_no_record_is_refused_and_left_alone(run_summary, write, run_export, tmp_path):
    trace = write(run_export)
    before = trace.read_bytes()
    with pytest.raises(RecordError, match="another database"):
        kernelscope.record(run_summary, trace)
    assert trace.read_bytes() == before
    text = tmp_path / "notes.txt"
    text.write_text("not a database, whatever its name says " * 20)
    with pytest.raises(RecordError, match="cannot be used"):
        kernelscope.record(run_summary, text)
    with pytest.raises(RecordError, match="not a regular file"):
        check_record(tmp_path)
    with pytest.raises(RecordError, match="does not exist"):
        kernelscope.history(tmp_path / "none.db")
    with pytest.raises(RecordError, match="cannot be used"):
        kernelscope.record(run_summary, tmp_path / "no folder" / "runs.db")


def test_a_failure_leaves_the_record_as_it_was(run_summary, db):
    kernelscope.record(run_summary, db)
    before = dump(db)
    # Steps are written last; no step can be there twice.
    steps = run_summary.table("step")
    broken = {**run_summary.tables, "step": steps.vstack(steps)}
    with pytest.raises(RecordError, match="UNIQUE"):
        kernelscope.record(replace(run_summary, tables=broken), db)
    assert dump(db) == before


def _write_runs(path, first, started):
    started.wait()
    for number in range(first, first + 5):
        summary = kernelscope.summarize(path.parent / f"run{number}.sqlite")
        kernelscope.record(summary, path, labels={"writer": str(first)})


def test_two_processes_write_at_one_time(db):
    for number in range(10):
        slower_run(30 + number).write(db.parent / f"run{number}.sqlite")
    spawn = multiprocessing.get_context("spawn")
    started = spawn.Barrier(2)
    writers = [spawn.Process(target=_write_runs, args=(db, first, started)) for first in (0, 5)]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
    assert [writer.exitcode for writer in writers] == [0, 0]
    assert rows(db, "SELECT labels, count(*) FROM runs GROUP BY 1") == [
        ("writer=0", 5),
        ("writer=5", 5),
    ]
    assert rows(db, "SELECT count(*) FROM steps") == [(30,)]
    assert rows(db, "PRAGMA integrity_check") == [("ok",)]


# The history


@pytest.fixture
def three_runs(db, summarize):
    for gemm_us in (30, 40, 70):
        kernelscope.record(summarize(slower_run(gemm_us)), db)
    return db


def test_a_category_over_runs(three_runs):
    found = kernelscope.history(three_runs, category="gemm")
    assert found["category_ms"].to_list() == pytest.approx([0.030, 0.040, 0.070])
    assert found["kernel_ms"].to_list() == pytest.approx([0.040, 0.050, 0.080])
    assert found["category_share"].to_list() == pytest.approx([3 / 4, 4 / 5, 7 / 8])
    assert found["kernels_per_step"].to_list() == [2, 2, 2]


def test_the_last_runs_are_the_newest(three_runs):
    found = kernelscope.history(three_runs, last=2)
    assert found["kernel_ms"].to_list() == pytest.approx([0.050, 0.080])
    assert "category" not in found.columns


def test_runs_are_in_the_order_of_their_captures(db, summarize):
    for gemm_us, day in ((30, 5), (40, 3)):
        summary = summarize(slower_run(gemm_us))
        info = replace(summary.info, started_utc_ns=day * 86_400 * 10**9)
        kernelscope.record(replace(summary, info=info), db)
    found = kernelscope.history(db)
    assert found["captured_at"].to_list() == [
        "1970-01-04T00:00:00+00:00",
        "1970-01-06T00:00:00+00:00",
    ]


def test_what_no_run_has_is_refused_with_what_there_is(three_runs):
    with pytest.raises(PhaseNotFound, match="Phases in it: decode"):
        kernelscope.history(three_runs, "prefill")
    with pytest.raises(PhaseNotFound, match="Categories in it: gemm, norm"):
        kernelscope.history(three_runs, category="attention")


def test_a_run_without_the_category_has_none_of_its_time(three_runs, summarize):
    other = ExportBuilder("2024.2").gpu(0, "NVIDIA H200").window(2_000)
    for _ in range(3):
        other.step(DECODE, [("rms_norm_kernel", 10)])
    kernelscope.record(summarize(other), three_runs)
    found = kernelscope.history(three_runs, category="gemm")
    assert found["category_ms"].to_list()[-1] == 0
    assert found["category_share"].to_list()[-1] == 0


def test_a_sparkline_reaches_from_the_lowest_to_the_highest():
    assert sparkline([1, 2, 8]) == "▁▂█"
    assert sparkline([1, 2, 8], ascii_only=True) == "_.#"
    assert sparkline([3.0, 3.0]) == "▁▁"


def test_the_text_says_how_each_figure_moved(three_runs):
    lines = render_text(kernelscope.history(three_runs, category="gemm")).splitlines()
    assert lines[0] == "decode, gemm: 3 runs, times per step"
    # By hand: 30, 40 and 70 us; a quarter of the way up is block 2 of 0 to 7.
    assert lines[-1] == "category ms ▁▃█ 0.030 to 0.070 (+133.3%)"


def test_a_date_that_is_that_of_the_recording_is_marked(three_runs):
    dated = kernelscope.history(three_runs).with_columns(captured_at=pl.lit("2026-12-01T04:02:00"))
    assert "*" not in render_text(dated)
    text = render_text(dated.with_columns(captured_at=pl.lit(None, pl.String)))
    assert "*: recorded then; the trace does not say when it was captured." in text.splitlines()
    assert re.search(r"^\d{4}-\d\d-\d\d \d\d:\d\d\*", text, re.MULTILINE)


# The command line


def test_record_and_history_on_the_command_line(run, three_runs, write):
    trace = write(slower_run(90))
    done = run("record", trace, "--db", three_runs, "--label", "nightly", "--label", "engine=0.12")
    assert done.exit_code == 0
    assert done.stderr.strip().endswith("added")
    again = run("record", trace, trace, env={"KERNELSCOPE_DB": str(three_runs)})
    assert [line.split()[-1] for line in again.stderr.splitlines()] == ["unchanged"] * 2
    found = run("history", "--db", three_runs, "--category", "gemm", "--format", "csv")
    assert [row["labels"] for row in csv.DictReader(io.StringIO(found.stdout))][-1] == (
        "engine=0.12 nightly"
    )
    as_json = run("history", "--db", three_runs, "--last", 1, "--format", "json")
    assert json.loads(as_json.stdout)[0]["trace"] == trace.name
    assert "| nightly" not in run("history", "--db", three_runs, "--format", "markdown").stderr


def test_history_writes_a_file_but_never_over_the_database(run, three_runs, tmp_path):
    target = tmp_path / "history.md"
    done = run("history", "--db", three_runs, "--format", "markdown", "-o", target)
    assert done.exit_code == 0
    assert target.read_text("utf-8").startswith("# decode: 3 runs")
    refused = run("history", "--db", three_runs, "-o", three_runs, "--force")
    assert refused.exit_code == 1
    assert check_record(three_runs) == VERSION


def test_wrong_calls_are_told_without_a_traceback(run, db, write, run_export):
    trace = write(run_export)
    assert run("record", trace).exit_code == 2
    assert run("record", trace, "--db", db, "--label", "=x").exit_code == 2
    assert not db.exists()
    missing = run("history", "--db", db)
    assert missing.exit_code == 1
    assert "does not exist. kernelscope record writes one." in missing.stderr
    assert run("record", trace, "--db", trace).exit_code == 1


def test_names_from_a_trace_do_not_reach_the_terminal_as_commands(run, db, run_summary):
    hostile = replace(run_summary, info=replace(run_summary.info, path="\x1b[31mred.sqlite"))
    kernelscope.record(hostile, db, labels={"x": "\x1b]0;title\x07"})
    for format_ in FORMATS:
        assert "\x1b" not in run("history", "--db", db, "--format", format_).stdout


def test_the_command_knows_the_formats_and_phases():
    assert set(FORMATS) == set(HISTORY_FORMATS)
    assert set(PHASES) == set(SHOWN_PHASES)
