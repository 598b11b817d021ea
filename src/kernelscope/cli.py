"""The command line: parse, call the library, render, say what was written.

Everything that can be tested without a command line is in the library. Heavy imports happen
inside the commands, so that ``--help`` and ``--version`` answer at once.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from kernelscope.errors import KernelscopeError

if TYPE_CHECKING:
    from kernelscope.summary import Summary

# Names, not imports: the table behind them needs polars. A test holds them equal to FORMATS.
FORMATS = ("text", "json", "csv", "markdown", "parquet", "sqlite")
BY = ("category", "family", "kernel")
PHASES = ("decode", "prefill", "mixed", "trace")


class _Group(click.Group):
    """Turns the package's errors into one line on standard error and exit code 1."""

    def invoke(self, ctx: click.Context) -> Any:
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


@main.command()
@click.argument("trace", type=click.Path(path_type=Path))
@click.option("--format", "format_", type=click.Choice(FORMATS), default="text", show_default=True)
@click.option("-o", "--output", type=click.Path(path_type=Path), help="Write to this file.")
@click.option("--force", is_flag=True, help="Overwrite the output file if it exists.")
@click.option("--phase", type=click.Choice(PHASES), help="Only this phase.")
@click.option(
    "--by",
    type=click.Choice(BY),
    default="category",
    show_default=True,
    help="What a row of the tables stands for.",
)
def summarize(
    trace: Path, format_: str, output: Path | None, phase: str | None, by: str, *, force: bool
) -> None:
    """Summarize TRACE per phase: kernels per step, times, and shares per category.

    TRACE is an nsys SQLite export (nsys export --type sqlite REPORT.nsys-rep), or the report
    itself where nsys is on the path.

    Example: kernelscope summarize trace.sqlite --phase decode --format json
    """
    from kernelscope.nsys import read_export
    from kernelscope.rendering import BINARY_FORMATS, write_summary
    from kernelscope.summary import summarize as summarize_trace

    if format_ in BINARY_FORMATS and output is None:
        raise click.UsageError(f"--format {format_} writes a binary file: give its name with -o.")
    with _progress() as report:
        summary = summarize_trace(read_export(trace, progress=report))
    if phase is not None:
        summary = summary.only(phase)
    if output is None:
        _print(summary, format_, by)
    else:
        write_summary(summary, output, format_, by=by, overwrite=force)
        click.echo(f"wrote {output}", err=True)


def _print(summary: Summary, format_: str, by: str) -> None:
    """Text adapts to the terminal; every other form, and a pipe, is the same everywhere."""
    from kernelscope.rendering import render

    if format_ == "text" and sys.stdout.isatty():
        from rich.console import Console

        from kernelscope.rendering.text import print_summary

        print_summary(summary, by, Console(highlight=False))
        return
    rendered = render(summary, format_, by=by)
    click.echo(rendered, nl=False)


@contextmanager
def _progress() -> Iterator[Any]:
    """A bar on standard error once reading has taken a second, if someone is looking."""
    from kernelscope.rendering.progress import ReadingProgress

    with ReadingProgress() as progress:
        yield progress.update


def _one_line(text: str) -> str:
    """Paths and texts of a trace, without line breaks or escape sequences."""
    return " ".join("".join(c if c.isprintable() else " " for c in text).split())
