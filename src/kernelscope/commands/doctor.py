"""``kernelscope doctor``."""

from __future__ import annotations

from pathlib import Path

import click

from kernelscope.commands.options import load, output_options, rules_option
from kernelscope.commands.output import deliver

# Names, not imports; a test holds them equal to the renderers.
FORMATS = ("text", "json", "markdown")


@click.command(short_help="What a trace is, what can be learned from it, and what is wrong.")
@click.argument("trace", type=click.Path(path_type=Path))
@click.option("--format", "format_", type=click.Choice(FORMATS), default="text", show_default=True)
@click.option(
    "--unprofiled-ms",
    type=click.FloatRange(min=0, min_open=True),
    help="A decode step's milliseconds without the profiler: says how much the profiler cost.",
)
@output_options
@rules_option
@click.pass_context
def doctor(
    ctx: click.Context,
    trace: Path,
    format_: str,
    unprofiled_ms: float | None,
    output: Path | None,
    rules_path: Path | None,
    *,
    force: bool,
) -> None:
    """Look TRACE over before its numbers are believed.

    Prints what was looked at, what is in order, what limits the numbers (warning) and what makes
    them wrong (problem), each with what to do next. Exits with 1 if there is a problem.

    Example: kernelscope doctor trace.sqlite --unprofiled-ms 15.35
    """
    from kernelscope.diagnosis import diagnose
    from kernelscope.rendering.diagnosis import DIAGNOSIS_FORMATS, print_diagnosis
    from kernelscope.rendering.progress import ReadingProgress
    from kernelscope.writing import check_target

    if output is not None:
        check_target(output, overwrite=force, trace=trace)
    rules = load(rules_path)
    with ReadingProgress() as progress:
        found = diagnose(trace, unprofiled_ms=unprofiled_ms, rules=rules, progress=progress.update)
    deliver(
        format_,
        lambda: DIAGNOSIS_FORMATS[format_](found),
        lambda console: print_diagnosis(found, console),
        output,
        force=force,
    )
    ctx.exit(1 if found.problems else 0)
