"""``kernelscope history``."""

from __future__ import annotations

from pathlib import Path

import click

from kernelscope.commands.options import database_option, output_options
from kernelscope.commands.output import deliver

# Names, not imports; a test holds them equal to the renderers.
FORMATS = ("text", "json", "csv", "markdown")
PHASES = ("decode", "prefill", "mixed", "trace")


@click.command(short_help="A phase or a category over the runs of a database.")
@database_option
@click.option("--phase", type=click.Choice(PHASES), default="decode", show_default=True)
@click.option("--category", help="Show the time of this category as well, e.g. gemm.")
@click.option("--last", type=click.IntRange(min=1), help="Show only this many runs, the newest.")
@click.option("--format", "format_", type=click.Choice(FORMATS), default="text", show_default=True)
@output_options
def history(
    db: Path,
    phase: str,
    category: str | None,
    last: int | None,
    format_: str,
    output: Path | None,
    *,
    force: bool,
) -> None:
    """Show how a step's time moved over the runs that kernelscope record has kept.

    Example: kernelscope history --db runs.db --phase decode --category gemm
    """
    from kernelscope.records import history as read_history
    from kernelscope.rendering.history import HISTORY_FORMATS, print_history
    from kernelscope.writing import check_target

    if output is not None:
        check_target(output, overwrite=force, trace=db)
    found = read_history(db, phase, category=category, last=last)
    deliver(
        format_,
        lambda: HISTORY_FORMATS[format_](found),
        lambda console: print_history(found, console),
        output,
        force=force,
    )
