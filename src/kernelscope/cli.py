"""The command line's entry: the group of commands, and how errors are told.

Commands parse, call the library, render, and say what was written; everything that can be
tested without a command line is in the library. Heavy imports happen inside the commands, so
that ``--help`` and ``--version`` answer at once.
"""

from __future__ import annotations

import io
import os
import sys
from typing import Any

import click

from kernelscope.commands.categories import categories
from kernelscope.commands.chart import chart
from kernelscope.commands.classify import classify
from kernelscope.commands.diff import diff
from kernelscope.commands.doctor import doctor
from kernelscope.commands.export import export
from kernelscope.commands.history import history
from kernelscope.commands.record import record
from kernelscope.commands.roofline import roofline
from kernelscope.commands.rules import rules
from kernelscope.commands.steps import steps
from kernelscope.commands.summarize import summarize
from kernelscope.commands.trim import trim
from kernelscope.errors import KernelscopeError


class _Group(click.Group):
    """Turns the package's errors into one line on standard error and exit code 1."""

    def invoke(self, ctx: click.Context) -> Any:
        _show_what_can_be_shown()
        try:
            return super().invoke(ctx)
        except KernelscopeError as error:
            click.echo(f"kernelscope: {_one_line(str(error))}", err=True)
            ctx.exit(1)
        except BrokenPipeError:
            # The reader (head, less) has seen enough; nothing is left to say to it.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            ctx.exit(0)


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
    doctor,
    trim,
    export,
    record,
    history,
    classify,
    categories,
    rules,
)
for _command in _COMMANDS:
    main.add_command(_command)


def _show_what_can_be_shown() -> None:
    """A character that the output's encoding lacks becomes "?" instead of a traceback."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")


def _one_line(text: str) -> str:
    """Paths and texts of a trace, without line breaks or escape sequences."""
    return " ".join("".join(c if c.isprintable() else " " for c in text).split())
