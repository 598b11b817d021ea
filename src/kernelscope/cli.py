"""The command line's entry: the group of commands, and how errors are told.

Commands parse, call the library, render, and say what was written; everything that can be
tested without a command line is in the library. Heavy imports happen inside the commands, so
that ``--help`` and ``--version`` answer at once.
"""

from __future__ import annotations

import errno
import io
import os
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import click

from kernelscope.commands.analyze import analyze
from kernelscope.commands.capture import capture
from kernelscope.commands.categories import categories
from kernelscope.commands.chart import chart
from kernelscope.commands.classify import classify
from kernelscope.commands.diff import diff
from kernelscope.commands.doctor import doctor
from kernelscope.commands.export import export
from kernelscope.commands.history import history
from kernelscope.commands.record import record
from kernelscope.commands.report import report
from kernelscope.commands.roofline import roofline
from kernelscope.commands.rules import rules
from kernelscope.commands.steps import steps
from kernelscope.commands.summarize import summarize
from kernelscope.commands.trim import trim
from kernelscope.errors import KernelscopeError

_NO_ROOM = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO})
_STOPPED_BY = 128
"""What shells add to the number of the signal that stopped a program."""
_STOPS = ("SIGTERM", "SIGHUP")


class _Stopped(BaseException):
    """A signal asked for the end; like KeyboardInterrupt, it unwinds what was begun."""

    def __init__(self, number: int) -> None:
        self.number = number
        super().__init__(number)


class _Group(click.Group):
    """Turns the package's errors into one line on standard error and exit code 1."""

    def invoke(self, ctx: click.Context) -> Any:
        _show_what_can_be_shown()
        try:
            with _ending_tidily():
                return super().invoke(ctx)
        except KernelscopeError as error:
            click.echo(f"kernelscope: {_one_line(str(error))}", err=True)
            ctx.exit(1)
        except BrokenPipeError:
            # The reader (head, less) has seen enough; nothing is left to say to it.
            _discard_output()
            ctx.exit(0)
        except OSError as error:
            if error.errno not in _NO_ROOM:
                raise
            _discard_output()
            told = f"The output cannot be written: {error.strerror}."
            click.echo(f"kernelscope: {told} Make room, or send it elsewhere.", err=True)
            ctx.exit(1)
        except (KeyboardInterrupt, _Stopped) as stopped:
            click.echo("kernelscope: stopped; no output is left half-written.", err=True)
            number = stopped.number if isinstance(stopped, _Stopped) else signal.SIGINT
            ctx.exit(_STOPPED_BY + number)


@click.group(cls=_Group, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="kernelscope", prog_name="kernelscope")
def main() -> None:
    """Say where a decode step of a vLLM run goes, from its Nsight Systems export.

    Example: kernelscope summarize trace.sqlite
    """


_COMMANDS = (
    summarize,
    steps,
    roofline,
    diff,
    chart,
    report,
    doctor,
    trim,
    export,
    record,
    history,
    capture,
    analyze,
    classify,
    categories,
    rules,
)
for _command in _COMMANDS:
    main.add_command(_command)


@contextmanager
def _ending_tidily() -> Iterator[None]:
    """Signals that end a program remove its unfinished files first, as Ctrl-C does."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    numbers = [getattr(signal, name) for name in _STOPS if hasattr(signal, name)]
    # A signal that is ignored on purpose (nohup) stays so.
    mine = [number for number in numbers if signal.getsignal(number) == signal.SIG_DFL]

    def stop(number: int, _: object) -> None:
        signal.signal(number, signal.SIG_IGN)
        raise _Stopped(number)

    for number in mine:
        signal.signal(number, stop)
    try:
        yield
    finally:
        for number in mine:
            signal.signal(number, signal.SIG_DFL)


def _discard_output() -> None:
    """What standard output still holds goes nowhere, so that no error comes at the very end."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _show_what_can_be_shown() -> None:
    """A character that the output's encoding lacks becomes "?" instead of a traceback."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")


def _one_line(text: str) -> str:
    """Paths and texts of a trace, without line breaks or escape sequences."""
    return " ".join("".join(c if c.isprintable() else " " for c in text).split())
