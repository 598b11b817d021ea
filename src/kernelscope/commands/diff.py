"""``kernelscope diff``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from kernelscope.commands.options import Reading, output_options, parse_share, reading_options
from kernelscope.commands.output import deliver

if TYPE_CHECKING:
    from kernelscope.comparison import Comparison

# Names, not imports; a test holds them equal to the renderers.
FORMATS = ("text", "json", "markdown")
PHASES = ("decode", "prefill", "mixed", "trace")


@click.command(short_help="What changed from one trace to another.")
@click.argument("before", type=click.Path(path_type=Path))
@click.argument("after", type=click.Path(path_type=Path))
@click.option("--phase", type=click.Choice(PHASES), help="Only this phase.")
@click.option(
    "--fail-above",
    callback=parse_share,
    help="Exit with 1 if steps became longer by more than this, e.g. 3%; noise does not count.",
)
@click.option("--format", "format_", type=click.Choice(FORMATS), default="text", show_default=True)
@output_options
@reading_options
@click.pass_context
def diff(
    ctx: click.Context,
    before: Path,
    after: Path,
    phase: str | None,
    fail_above: float | None,
    format_: str,
    output: Path | None,
    reading: Reading,
    *,
    force: bool,
) -> None:
    """Compare the steps of AFTER with those of BEFORE.

    Prints the time per step of each phase in both, which categories account for the change, and
    which kernels became slower, were fused, are new or gone. A trace against itself differs in
    nothing.

    Example: kernelscope diff before.sqlite after.sqlite --phase decode --fail-above 3%
    """
    from kernelscope.comparison import compare_sides, read_side
    from kernelscope.rendering.comparison import COMPARISON_FORMATS, print_comparison
    from kernelscope.writing import check_target

    if reading.split_by is not None:
        raise click.UsageError("diff does not go with --split-by.")
    if output is not None:
        for trace in (before, after):
            check_target(output, overwrite=force, trace=trace)
    first, second = (reading.apply(read_side, trace) for trace in (before, after))
    found = compare_sides(first, second)
    if phase is not None:
        found = found.only(phase)
    deliver(
        format_,
        lambda: COMPARISON_FORMATS[format_](found),
        lambda console: print_comparison(found, console),
        output,
        force=force,
    )
    if fail_above is not None:
        ctx.exit(_judged(found, fail_above))


def _judged(found: Comparison, limit: float) -> int:
    """The exit code; says on standard error what it rests on."""
    failed = [phase for phase in found.phases if phase.rose_above(limit)]
    judged = [phase for phase in found.phases if phase.shift.is_significant is not None]
    for phase in failed:
        click.echo(
            f"kernelscope: {phase.phase} steps of rank {phase.rank} became {phase.relative:.1%} "
            f"longer; allowed are {limit:.1%}.",
            err=True,
        )
    if not judged:
        click.echo(
            "kernelscope: no phase has enough steps in both traces to tell a change from noise. "
            "Capture at least four steps.",
            err=True,
        )
    return 1 if failed or not judged else 0
