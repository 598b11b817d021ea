"""Files that were damaged or made to harm, by every command that reads a trace.

Two outcomes are allowed, and every case says which it expects: one line that says what was found,
with exit code 1 and nothing written; or a right result. What the file is as a whole (empty, cut
off, another kind) is tested more closely in test_bad_input.py, for one command.
"""

import json
import os
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

import kernelscope
from conftest import small_run
from export_builder import KERNEL, RUNTIME
from kernelscope.errors import RuleError

CONFIG = Path(__file__).parent.parent / "fixtures" / "configs" / "llama-8b.json"
COMMANDS = {
    "summarize": (),
    "summarize -o": ("-o", "{out}"),
    "steps": (),
    "steps -o": ("-o", "{out}"),
    "doctor": (),
    "roofline": ("--model-config", CONFIG),
    "export": ("-o", "{out}.json"),
    "trim": ("-o", "{out}"),
    "trim --steps": ("--steps", "1:3", "-o", "{out}"),
}
MOST = (1 << 63) - 1
LEAST = -MOST - 1
HOSTILE = "\x1b]0;x\x07\x9b31m<script>alert(1)</script>'; DROP TABLE x; --\u202e\n\t"


@pytest.fixture
def every_command(run, tmp_path):
    """Runs every command on a path; gives command -> (exit code, output, what it wrote)."""

    def invoke(path):
        results = {}
        for command, options in COMMANDS.items():
            folder = tmp_path / "written"
            folder.mkdir()
            said = [str(option).replace("{out}", str(folder / "out")) for option in options]
            before = sorted(path.parent.iterdir()) if path.parent.is_dir() else []
            done = run(command.split()[0], path, *said)
            assert done.exception is None or isinstance(done.exception, SystemExit), command
            assert done.exit_code in {0, 1}, (command, done.output)
            assert "Traceback" not in done.output
            after = sorted(path.parent.iterdir()) if path.parent.is_dir() else []
            assert after == before, command
            results[command] = (done.exit_code, done, sorted(folder.iterdir()))
            shutil.rmtree(folder)
        return results

    return invoke


@pytest.fixture
def refused_by_all(every_command):
    """Every command refuses the path in one line, which is given, and writes nothing."""

    def invoke(path):
        lines = set()
        for command, (code, done, written) in every_command(path).items():
            assert code == 1, (command, done.output)
            assert written == [], command
            if command == "doctor":  # its report is what was asked for, also of such a file
                continue
            assert done.stdout == "", command
            assert done.stderr.count("\n") == 1, command
            lines.add(done.stderr)
        assert len(lines) == 1, "every command says the same of a file"
        return lines.pop()

    return invoke


@pytest.fixture
def changed(tmp_path):
    """The path of the small run after SQL statements changed it."""

    def change(*statements):
        path = small_run().write(tmp_path / "run.sqlite")
        with closing(sqlite3.connect(path)) as database, database:
            for statement in statements:
                database.execute(*((statement,) if isinstance(statement, str) else statement))
        return path

    return change


# Files that are no export


def _cut(whole):
    return whole[: len(whole) // 2 + 17]


@pytest.mark.parametrize(
    ("damage", "said"),
    [
        (lambda _: b"", "is empty (0 bytes)"),
        (lambda _: bytes(8192), "unfinished"),
        (_cut, "truncated"),
        (lambda _: b"#!/bin/sh\nrm -rf x\n", "is not an SQLite file"),
    ],
)
def test_a_file_that_is_no_export(damage, said, refused_by_all, tmp_path):
    path = small_run().write(tmp_path / "run.sqlite")
    path.write_bytes(damage(path.read_bytes()))
    assert said in refused_by_all(path)


def test_an_sqlite_file_of_something_else(refused_by_all, tmp_path):
    path = tmp_path / "places.sqlite"
    with closing(sqlite3.connect(path)) as database, database:
        database.execute("CREATE TABLE places (name TEXT)")
    assert "not an nsys export" in refused_by_all(path)


@pytest.mark.parametrize("kind", ["pipe", "loop", "folder", "nowhere"])
def test_a_path_that_is_no_file(kind, refused_by_all, tmp_path):
    path = tmp_path / "in" / "run.sqlite"
    path.parent.mkdir()
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "loop":
        path.symlink_to(path)
    elif kind == "folder":
        path.mkdir()
    assert str(path) in refused_by_all(path)


def test_a_page_of_zeros_in_the_kernel_table(refused_by_all, changed):
    path = changed()
    with closing(sqlite3.connect(path)) as database:
        (root,) = database.execute(
            "SELECT rootpage FROM sqlite_master WHERE name = ?", (KERNEL,)
        ).fetchone()
    data = bytearray(path.read_bytes())
    data[4096 * (root - 1) : 4096 * root] = bytes(4096)
    path.write_bytes(data)
    assert "is damaged" in refused_by_all(path)


# Exports in odd places: the numbers stay the same


def figures(path):
    (decode,) = (phase for phase in kernelscope.summarize(path).phases if phase.phase == "decode")
    return decode.steps, decode.kernels_per_step.median, decode.kernel_ms


@pytest.mark.parametrize("name", ["a#b?c%20d.sqlite", "a b µ–文.sqlite", "'; DROP TABLE x; --"])
def test_odd_names_and_a_read_only_folder(name, every_command, tmp_path):
    whole = small_run().write(tmp_path / "plain.sqlite")
    folder = tmp_path / "read only"
    folder.mkdir()
    path = folder / name
    shutil.copyfile(whole, path)
    path.chmod(0o444)
    folder.chmod(0o555)
    try:
        assert figures(path) == figures(whole)
        codes = {command: code for command, (code, *_) in every_command(path).items()}
    finally:
        folder.chmod(0o755)
    assert codes == {command: int(command == "roofline") for command in COMMANDS}


def test_a_log_beside_the_file_is_read_and_left(tmp_path):
    whole = small_run().write(tmp_path / "run.sqlite")
    with closing(sqlite3.connect(whole)) as writer:
        writer.execute("PRAGMA journal_mode = WAL")
        writer.execute("PRAGMA wal_autocheckpoint = 0")
        with writer:
            # Of the pending log only: one decode kernel of each step, 2 of 10 µs, is gone.
            writer.execute(f'DELETE FROM {KERNEL} WHERE "end" - start = 2000 AND graphNodeId > 0')
        assert Path(f"{whole}-wal").stat().st_size > 0
        assert figures(whole) == (3, 3, pytest.approx(0.008))
        assert Path(f"{whole}-wal").stat().st_size > 0


# Rows that cannot be: refused, or left out and said


@pytest.mark.parametrize(
    ("start", "end"),
    [
        (MOST - 5, MOST),
        (LEAST, LEAST + 5),
        (LEAST, MOST),
        (110_000, MOST),
        (LEAST, 110_000),
        (110_000, 110_000 + 86_400_000_000_001),
        (110_000, 0),
        (0, 0),
    ],
)
def test_a_kernel_with_a_time_of_no_clock_is_left_out_and_counted(start, end, changed, tmp_path):
    """The figures of the others stay: the prefill's first kernel is the one that is damaged."""
    sound = figures(small_run().write(tmp_path / "sound.sqlite"))
    path = changed(f'UPDATE {KERNEL} SET start = {start}, "end" = {end} WHERE rowid = 1')
    summary = kernelscope.summarize(path)
    assert figures(path) == sound
    assert any(warning.startswith("1 kernels or graph") for warning in summary.warnings)
    assert any(one.topic == "times" for one in kernelscope.diagnose(path).problems)


def test_times_of_no_clock_alone_give_no_times(changed, run):
    path = changed(f'UPDATE {KERNEL} SET start = {MOST - 5}, "end" = {MOST}')
    done = run("summarize", path, "--format", "json")
    assert json.loads(done.stdout)["phases"] == []
    assert run("doctor", path).exit_code == 1


ODD_ROWS = {
    "no correlation ids": (f"UPDATE {KERNEL} SET correlationId = NULL",),
    "no processes": (f"UPDATE {KERNEL} SET globalPid = NULL",),
    "one correlation id": (f"UPDATE {KERNEL} SET correlationId = 101",),
    "calls of one id": (f"UPDATE {RUNTIME} SET correlationId = 101",),
    "names that lead nowhere": (f"UPDATE {KERNEL} SET demangledName = {LEAST}",),
    "calls whose names lead nowhere": (f"UPDATE {RUNTIME} SET nameId = {MOST}",),
    "kernels twice": (f"INSERT INTO {KERNEL} SELECT * FROM {KERNEL}",),
    "calls at the end of time": (f'UPDATE {RUNTIME} SET start = {MOST - 1}, "end" = {MOST}',),
    "calls through all time": (f'UPDATE {RUNTIME} SET start = {LEAST}, "end" = {MOST}',),
    "labels at the end of time": (f'UPDATE NVTX_EVENTS SET start = {MOST - 1}, "end" = {MOST}',),
    "labels through all time": (f'UPDATE NVTX_EVENTS SET start = {LEAST}, "end" = {MOST}',),
    "ids of 63 bits": (f"UPDATE {KERNEL} SET correlationId = {MOST} WHERE rowid = 3",),
    "grids of 63 bits": (f"UPDATE {KERNEL} SET gridX = {MOST}, blockX = {LEAST}",),
    "devices of 63 bits": (f"UPDATE {KERNEL} SET deviceId = {MOST}",),
    "times that are text": (f"UPDATE {KERNEL} SET start = 'a'",),
    "times that are infinite": (f"UPDATE {KERNEL} SET start = 9e999",),
    "calls that are text": (f"UPDATE {RUNTIME} SET start = 'a'",),
    "label times that are text": ("UPDATE NVTX_EVENTS SET start = 'a'",),
    "label threads that are text": ("UPDATE NVTX_EVENTS SET globalTid = 'a'",),
    "names that are numbers": ("UPDATE StringIds SET value = 12345",),
    "names that are bytes": ("UPDATE StringIds SET value = x'ff00fe'",),
    "facts that are bytes": ("UPDATE META_DATA_EXPORT SET value = x'ff00'",),
    "GPU facts that are text": ("UPDATE TARGET_INFO_GPU SET memoryBandwidth = 'a', id = 'b'",),
    "GPU facts of 63 bits": (f"UPDATE TARGET_INFO_GPU SET memoryBandwidth = {MOST}, id = {MOST}",),
    "a window of 63 bits": (f"UPDATE ANALYSIS_DETAILS SET duration = {MOST}",),
    "a label with a number of 5,000 digits": (
        ("UPDATE NVTX_EVENTS SET text = ?", (f"execute_context_0(0)_generation_{'9' * 5000}(1)",)),
    ),
    "no table of strings": ("DROP TABLE StringIds",),
    "no table of calls": (f"DROP TABLE {RUNTIME}",),
    "no ids of strings": ("ALTER TABLE StringIds RENAME COLUMN id TO other",),
    "no types of ranges": ("ALTER TABLE NVTX_EVENTS DROP COLUMN eventType",),
    "no ids of calls": (f"ALTER TABLE {RUNTIME} DROP COLUMN correlationId",),
    "no names of facts": ("ALTER TABLE META_DATA_EXPORT RENAME COLUMN name TO other",),
    "no values of facts": ("ALTER TABLE META_DATA_EXPORT RENAME COLUMN value TO other",),
}


@pytest.mark.parametrize("statements", ODD_ROWS.values(), ids=ODD_ROWS)
def test_odd_rows_are_refused_in_one_line_or_give_a_result(statements, every_command, changed):
    for command, (code, done, written) in every_command(changed(*statements)).items():
        if code and command != "doctor":
            assert (done.stdout, done.stderr.count("\n")) == ("", 1), command
            assert written == [], command
        elif "-o" in COMMANDS[command]:
            assert len(written) == 1, command


def test_steps_to_which_nothing_can_be_tied_are_not_trimmed_to_nothing(changed, run, tmp_path):
    path = changed(f"ALTER TABLE {RUNTIME} DROP COLUMN correlationId")
    done = run("trim", path, "--steps", "1:3", "-o", tmp_path / "out.sqlite")
    assert "no kernel can be tied to its API call" in done.stderr
    assert list(tmp_path.iterdir()) == [path]


# What the file defines is not executed


def test_a_view_without_end_is_not_waited_for(refused_by_all, changed):
    path = changed(
        f"ALTER TABLE {KERNEL} RENAME TO kept",
        f"CREATE VIEW {KERNEL} AS WITH endless(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM endless)"
        " SELECT kept.* FROM kept, endless",
    )
    assert "is recursive" in refused_by_all(path)


@pytest.mark.parametrize(
    ("view", "said"),
    [
        ("SELECT kept.*, load_extension('evil') FROM kept", "load_extension"),
        (f"SELECT * FROM {KERNEL}", "circular"),
    ],
)
def test_a_view_that_calls_or_loops(view, said, refused_by_all, changed):
    path = changed(f"ALTER TABLE {KERNEL} RENAME TO kept", f"CREATE VIEW {KERNEL} AS {view}")
    assert said in refused_by_all(path)


def test_triggers_and_indexes_by_expression_change_nothing(changed, tmp_path):
    sound = figures(small_run().write(tmp_path / "sound.sqlite"))
    path = changed(
        f"CREATE TRIGGER boom AFTER INSERT ON {KERNEL} BEGIN SELECT raise(ABORT, 'boom'); END",
        f"CREATE INDEX by_expression ON {KERNEL} (abs(start))",
        """CREATE TABLE "x""; DROP TABLE StringIds; --" (a)""",
    )
    assert figures(path) == sound


# Texts of the file reach nobody unescaped


def _is_harmless(text):
    return all(c == "\n" or c.isprintable() for c in text)


@pytest.mark.parametrize(
    "where",
    ["StringIds SET value = ? || id", "NVTX_EVENTS SET text = text || ?",
     "META_DATA_EXPORT SET value = ?", "TARGET_INFO_GPU SET name = ?"],
)  # fmt: skip
def test_no_control_character_of_a_text_reaches_a_terminal(where, every_command, changed):
    results = every_command(changed((f"UPDATE {where}", (HOSTILE,))))
    for command, (_, done, _) in results.items():
        assert _is_harmless(done.output), command


@pytest.mark.parametrize("format_", ["text", "markdown"])
def test_no_tag_of_a_name_reaches_a_page(format_, changed, run):
    path = changed(("UPDATE StringIds SET value = ? || id", (HOSTILE,)))
    for by in ("category", "family", "kernel"):
        done = run("summarize", path, "--by", by, "--format", format_)
        assert done.exit_code == 0
        assert _is_harmless(done.stdout)
        if format_ == "markdown":
            assert "<script" not in done.stdout


def test_names_of_a_megabyte_do_not_flood_a_terminal(changed, run):
    path = changed(("UPDATE StringIds SET value = ? || id", ("x" * 1_000_000,)))
    done = run("summarize", path)
    assert done.exit_code == 0
    assert len(done.output) < 500_000


# Rules of a user


@pytest.mark.parametrize(
    ("pattern", "is_refused"), [("(a+)+$", False), ("(?:a{1000}){1000}", True), ("a(?=b)", True)]
)
def test_a_catastrophic_pattern_is_linear_or_refused(pattern, is_refused, run, tmp_path):
    """The engine does not backtrack; the name is one that takes a backtracking one 2^40 steps."""
    rules = tmp_path / "rules.toml"
    rules.write_text(
        f"[[rule]]\nid = 'mine'\ncategory = 'gemm'\npattern = '{pattern}'\nexamples = ['aaa']\n"
    )
    if is_refused:
        with pytest.raises(RuleError, match="mine"):
            kernelscope.load_rules(rules)
        return
    done = run("classify", "a" * 40 + "!", "aaa", "--rules", rules, "--format", "json")
    assert [name["rule"] == "mine" for name in json.loads(done.stdout)] == [False, True]
