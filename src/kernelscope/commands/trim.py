"""``kernelscope trim``."""

from __future__ import annotations

import shutil
from collections.abc import Container
from pathlib import Path

import click

from kernelscope.commands.options import parse_steps

# Names, not imports; the command must answer --help at once.
PHASES = ("decode", "prefill", "mixed")


@click.command(short_help="A part of a trace as a smaller export that can be shared.")
@click.argument("trace", type=click.Path(path_type=Path))
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path),
    required=True,
    help="The SQLite file to write.",
)
@click.option(
    "--steps",
    callback=parse_steps,
    help="Keep steps with these numbers, e.g. 3 or 5:20 (20 not included).",
)
@click.option("--phase", type=click.Choice(PHASES), help="Keep steps of this phase.")
@click.option(
    "--start",
    "start_ms",
    type=float,
    metavar="MS",
    help="Keep steps that begin at this time or later: ms, as in the table of steps.",
)
@click.option(
    "--end", "end_ms", type=float, metavar="MS", help="Keep steps that begin before this time, ms."
)
@click.option(
    "--scrub/--no-scrub",
    default=True,
    show_default=True,
    help="Copy only what may be shared: no environment, command line, user, host, path.",
)
@click.option("--force", is_flag=True, help="Overwrite the output file if it exists.")
def trim(
    trace: Path,
    output: Path,
    steps: Container[int] | None,
    phase: str | None,
    start_ms: float | None,
    end_ms: float | None,
    *,
    scrub: bool,
    force: bool,
) -> None:
    """Write a part of TRACE as a smaller nsys export.

    With every chosen step go its API calls, GPU work, NVTX ranges, and what these name; without a
    choice, all steps are kept. Says what was kept, what was removed, and what may still tell more
    than you want. The step numbers are those of kernelscope steps.

    Example: kernelscope trim trace.sqlite --steps 5:8 -o small.sqlite
    """
    from kernelscope.rendering.progress import ReadingProgress
    from kernelscope.rendering.trimmed import render_text
    from kernelscope.trimming import trim as trim_trace

    with ReadingProgress() as progress:
        trimmed = trim_trace(
            trace,
            output,
            steps=steps,
            phase=phase,
            start_ms=start_ms,
            end_ms=end_ms,
            scrub=scrub,
            overwrite=force,
            progress=progress.update,
        )
    click.echo(render_text(trimmed, shutil.get_terminal_size().columns), nl=False)
