"""``kernelscope summarize``."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import click

from kernelscope.commands.options import load, parse_share, rules_option

if TYPE_CHECKING:
    from kernelscope.summary import Summary
    from kernelscope.trace import Progress

# Names, not imports: the table behind them needs polars. A test holds them equal to FORMATS.
FORMATS = ("text", "json", "csv", "markdown", "parquet", "sqlite")
BY = ("category", "family", "kernel")
PHASES = ("decode", "prefill", "mixed", "trace")


@click.command(short_help="Kernels per step, times and shares of a trace.")
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
@click.option(
    "--context/--no-context",
    default=True,
    show_default=True,
    help="Decide by surroundings what kernel names cannot.",
)
@click.option(
    "--inductor-cache",
    type=click.Path(path_type=Path),
    help="A folder with Inductor's generated sources, to learn what its kernels do.",
)
@click.option(
    "--max-unknown",
    callback=parse_share,
    help="Exit with 1 if unknown kernels take more than this share of a phase, e.g. 1%.",
)
@rules_option
def summarize(
    trace: Path,
    format_: str,
    output: Path | None,
    phase: str | None,
    by: str,
    inductor_cache: Path | None,
    max_unknown: float | None,
    rules_path: Path | None,
    *,
    force: bool,
    context: bool,
) -> None:
    """Summarize TRACE per phase: kernels per step, times, and shares per category.

    TRACE is an nsys SQLite export (nsys export --type sqlite REPORT.nsys-rep), or the report
    itself where nsys is on the path.

    Example: kernelscope summarize trace.sqlite --phase decode --format json
    """
    from kernelscope.nsys import read_export
    from kernelscope.rendering import BINARY_FORMATS, write_summary
    from kernelscope.summary import check_unknown
    from kernelscope.summary import summarize as summarize_trace

    if format_ in BINARY_FORMATS and output is None:
        raise click.UsageError(f"--format {format_} writes a binary file: give its name with -o.")
    rules = load(rules_path)
    with _progress() as progress:
        opened = read_export(trace, progress=progress)
        summary = summarize_trace(
            opened, rules=rules, context=context, inductor_cache=inductor_cache
        )
    if phase is not None:
        summary = summary.only(phase)
    if output is None:
        _print(summary, format_, by)
    else:
        write_summary(summary, output, format_, by=by, overwrite=force)
        click.echo(f"wrote {output}", err=True)
    if max_unknown is not None:
        check_unknown(summary, max_unknown)


def _print(summary: Summary, format_: str, by: str) -> None:
    """Text adapts to the terminal; every other form, and a pipe, is the same everywhere."""
    from kernelscope.rendering import render

    if format_ == "text" and sys.stdout.isatty():
        from rich.console import Console

        from kernelscope.rendering.text import print_summary

        print_summary(summary, by, Console(highlight=False))
        return
    click.echo(render(summary, format_, by=by), nl=False)


@contextmanager
def _progress() -> Iterator[Progress]:
    """A bar on standard error once reading has taken a second, if someone is looking."""
    from kernelscope.rendering.progress import ReadingProgress

    with ReadingProgress() as progress:
        yield progress.update
