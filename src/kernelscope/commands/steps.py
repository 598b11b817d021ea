"""``kernelscope steps``."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import click

from kernelscope.commands.options import Reading, output_options, reading_options

# Names, not imports; a test holds them equal to the renderers.
FORMATS = ("text", "json", "csv", "markdown", "parquet")


@click.command(short_help="One row per step, and how times move along the run.")
@click.argument("trace", type=click.Path(path_type=Path))
@click.option("--format", "format_", type=click.Choice(FORMATS), default="text", show_default=True)
@output_options
@reading_options
def steps(trace: Path, format_: str, output: Path | None, reading: Reading, *, force: bool) -> None:
    """Print one row per step of TRACE: what it held, how long it took, where it idled.

    Times are milliseconds; steps in no average keep their row, with their status. Text ends
    with how the time of each category moves along the run.

    Example: kernelscope steps trace.sqlite --format csv -o steps.csv
    """
    from kernelscope.rendering.steps import BINARY, STEP_FORMATS, render_text
    from kernelscope.writing import check_target, write_file

    if format_ in BINARY and output is None:
        raise click.UsageError(f"--format {format_} writes a binary file: give its name with -o.")
    if output is not None:
        check_target(output, overwrite=force)
    summary = reading.summarize(trace)
    if output is None and format_ == "text" and sys.stdout.isatty():
        click.echo(render_text(summary, shutil.get_terminal_size().columns), nl=False)
        return
    rendered = STEP_FORMATS[format_](summary)
    if output is None:
        click.echo(rendered, nl=False)
    else:
        write_file(output, rendered, overwrite=force)
        click.echo(f"wrote {output}", err=True)
