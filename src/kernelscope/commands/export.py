"""``kernelscope export``."""

from __future__ import annotations

from pathlib import Path

import click

from kernelscope.commands.options import load, rules_option


@click.command(short_help="A timeline for Perfetto and chrome://tracing.")
@click.argument("trace", type=click.Path(path_type=Path))
@click.option(
    "--format", "format_", type=click.Choice(("perfetto",)), default="perfetto", show_default=True
)
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path),
    required=True,
    help="The file to write: .json, or .json.gz for a compressed one.",
)
@click.option("--force", is_flag=True, help="Overwrite the output file if it exists.")
@rules_option
def export(
    trace: Path, format_: str, output: Path, rules_path: Path | None, *, force: bool
) -> None:
    """Write TRACE as a timeline that ui.perfetto.dev and chrome://tracing open.

    Kernels are named and coloured by category, in one lane per process, device and stream, with
    phases, steps and layers above and an arrow from each launching call.

    Example: kernelscope export trace.sqlite --format perfetto -o timeline.json.gz
    """
    from kernelscope.nsys import read_export
    from kernelscope.rendering.progress import ReadingProgress
    from kernelscope.timeline import write_timeline

    del format_  # there is one so far
    rules = load(rules_path)
    with ReadingProgress() as progress:
        opened = read_export(trace, progress=progress.update)
        written = write_timeline(opened, output, rules=rules, overwrite=force)
    click.echo(
        f"wrote {output}: {written.events:,} events and {written.arrows:,} arrows in "
        f"{written.lanes} lanes",
        err=True,
    )
