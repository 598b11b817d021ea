"""Commands that are stopped, and places that have no room: nothing half-written, one line, a code.

The programs run as their own processes, held at a moment that the test chooses; all their
temporary files go to a folder that must be empty afterwards.
"""

import os
import resource
import signal
import subprocess
import sys
from pathlib import Path

import click
import pytest

from conftest import small_run
from export_builder import DECODE, ExportBuilder
from folder_exports import make_folder
from kernelscope.cli import main

# Says that the moment has come, then waits to be stopped there.
HOLD = """
import sys, time
from kernelscope import cli
import {module} as module
def hold(*_, **__):
    print("here", file=sys.stderr, flush=True)
    time.sleep(60)
setattr(module{inner}, {name!r}, hold)
cli.main(sys.argv[1:])
"""
READING = ("kernelscope.nsys.source", ".NsysSource", "map_rows")
WRITING = ("pathlib", ".Path", "replace")
FILLING = ("kernelscope.nsys.extract", ".Extract", "save")
FULL = Path("/dev/full")
CODES = {signal.SIGINT: 130, signal.SIGTERM: 143, signal.SIGHUP: 129}


@pytest.fixture
def trace(tmp_path):
    (tmp_path / "in").mkdir()
    return small_run().write(tmp_path / "in" / "run.sqlite")


@pytest.fixture
def out(tmp_path):
    (tmp_path / "out").mkdir()
    return tmp_path / "out" / "result"


@pytest.fixture
def environment(tmp_path):
    (tmp_path / "tmp").mkdir()
    return {**os.environ, "TMPDIR": str(tmp_path / "tmp")}


def files(tmp_path):
    return {
        path: path.read_bytes()
        for folder in ("in", "out", "tmp")
        for path in (tmp_path / folder).rglob("*")
        if path.is_file()
    }


def start(code, arguments, **options):
    command = [sys.executable, "-c", code, *map(str, arguments)]
    return subprocess.Popen(command, stderr=subprocess.PIPE, text=True, **options)


@pytest.mark.parametrize(
    ("stop", "moment", "command"),
    [
        (signal.SIGINT, READING, ["summarize"]),
        (signal.SIGTERM, READING, ["trim", "--steps", "1:3"]),
        (signal.SIGHUP, READING, ["steps"]),
        (signal.SIGINT, WRITING, ["export"]),
        (signal.SIGTERM, WRITING, ["summarize", "--format", "sqlite"]),
        (signal.SIGINT, FILLING, ["trim"]),
        (signal.SIGTERM, FILLING, ["trim"]),
    ],
    ids=lambda value: getattr(value, "name", None) or "-".join(value).strip("."),
)
def test_a_stopped_command_leaves_what_was_there(
    stop, moment, command, trace, out, environment, tmp_path
):
    out.write_text("mine")
    before = files(tmp_path)
    code = HOLD.format(module=moment[0], inner=moment[1], name=moment[2])
    program = start(code, [*command, trace, "-o", out, "--force"], env=environment)
    assert program.stderr.readline() == "here\n"
    program.send_signal(stop)
    said = program.communicate(timeout=30)[1]
    assert program.returncode == CODES[stop]
    assert said == "kernelscope: stopped; no output is left half-written.\n"
    assert files(tmp_path) == before


@pytest.mark.parametrize("stop", [signal.SIGINT, signal.SIGTERM], ids=lambda stop: stop.name)
def test_the_copy_of_a_folder_export_goes_with_the_command(stop, trace, out, environment, tmp_path):
    folder = make_folder(trace, "parquet")
    before = files(tmp_path)
    code = HOLD.format(module=READING[0], inner=READING[1], name=READING[2])
    program = start(code, ["summarize", folder, "-o", out], env=environment)
    assert program.stderr.readline() == "here\n"
    assert len(list((tmp_path / "tmp").rglob("*.sqlite"))) == 1
    program.send_signal(stop)
    program.communicate(timeout=30)
    assert program.returncode == CODES[stop]
    assert files(tmp_path) == before
    assert list((tmp_path / "tmp").iterdir()) == []


def test_a_signal_that_was_to_be_ignored_is_ignored(trace, out, environment):
    """As nohup asks for."""
    code = HOLD.format(module=READING[0], inner=READING[1], name=READING[2])
    code = f"import signal; signal.signal(signal.SIGHUP, signal.SIG_IGN)\n{code}"
    program = start(code, ["summarize", trace, "-o", out], env=environment)
    assert program.stderr.readline() == "here\n"
    program.send_signal(signal.SIGHUP)
    with pytest.raises(subprocess.TimeoutExpired):
        program.wait(0.5)
    program.kill()
    program.communicate()


# No room


def start_and_wait(arguments, **options):
    command = [sys.executable, "-m", "kernelscope", *map(str, arguments)]
    return subprocess.run(command, stderr=subprocess.PIPE, text=True, check=False, **options)


@pytest.mark.skipif(not FULL.exists(), reason="needs a device that is always full")
@pytest.mark.parametrize("command", ["summarize", "steps", "doctor"])
def test_standard_output_without_room_is_said(command, trace):
    with FULL.open("w") as full:
        done = start_and_wait([command, trace], stdout=full)
    assert done.returncode == 1
    assert done.stderr == (
        "kernelscope: The output cannot be written: No space left on device. Make room, or send "
        "it elsewhere.\n"
    )


@pytest.mark.parametrize("command", [["summarize", "--format", "json"], ["export"], ["trim"]])
def test_a_file_without_room_is_said_and_leaves_what_was_there(
    command, trace, out, environment, tmp_path
):
    out.write_text("mine")
    before = files(tmp_path)

    def allow_little():
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (2048, 2048))

    done = start_and_wait(
        [*command, trace, "-o", out, "--force"], env=environment, preexec_fn=allow_little
    )
    assert done.returncode == 1
    assert done.stderr.startswith(f"kernelscope: {out} cannot be written: ")
    assert done.stderr.count("\n") == 1
    assert files(tmp_path) == before


def test_a_reader_that_has_seen_enough_is_no_error(tmp_path):
    """As head does; the table is longer than a pipe holds (64 KiB)."""
    export = ExportBuilder("2024.2")
    for _ in range(1500):
        export.step(DECODE, [("nvjet_a", 5)])
    command = [sys.executable, "-m", "kernelscope", "steps", "--format", "csv"]
    path = export.write(tmp_path / "run.sqlite")
    with subprocess.Popen(
        [*command, str(path)], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as program:
        assert program.stdout.readline()
        program.stdout.close()
        assert program.stderr.read() == b""
    assert program.returncode == 0


# What is there stays


WRITERS = {
    name: command
    for name, command in main.commands.items()
    if any("-o" in parameter.opts for parameter in command.params)
}


@pytest.mark.parametrize("name", WRITERS)
def test_every_command_that_writes_has_a_way_to_overwrite(name):
    (force,) = (one for one in WRITERS[name].params if "--force" in one.opts)
    assert isinstance(force, click.Option)
    assert force.is_flag


@pytest.mark.parametrize("name", ["summarize", "steps", "doctor", "export", "trim"])
def test_what_is_there_stays_unless_forced(name, trace, out, run):
    out.write_text("mine")
    arguments = [name, trace, "-o", out]
    done = run(*arguments)
    assert done.exit_code == 1
    assert done.stderr == (
        f"kernelscope: {out} exists. Choose another name, or overwrite with --force.\n"
    )
    assert out.read_text() == "mine"
    assert run(*arguments, "--force").exit_code == 0
    assert out.read_bytes() != b"mine"
    assert list(out.parent.iterdir()) == [out]
