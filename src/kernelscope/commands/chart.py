"""``kernelscope chart``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from kernelscope.commands.options import Reading, reading_options

# Names, not imports; a test holds them equal to what they name.
KINDS = ("shares", "grid", "strip", "layers", "steps", "roofline")
PHASES = ("decode", "prefill", "mixed", "trace")
THEMES = ("light", "dark")


@click.command(short_help="One picture of a trace, as SVG, PNG, HTML or JSON.")
@click.argument("trace", type=click.Path(path_type=Path))
@click.option("--kind", type=click.Choice(KINDS), required=True, help="What to draw.")
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path),
    required=True,
    help="Where to; the suffix chooses the form: .svg, .png, .html or .json (Vega-Lite).",
)
@click.option(
    "--phase", type=click.Choice(PHASES), help="Which phase; by default decode, or all of them."
)
@click.option("--theme", type=click.Choice(THEMES), default="light", show_default=True)
@click.option(
    "--model-config",
    type=click.Path(path_type=Path),
    help="With --kind roofline: the model's Hugging Face config.json.",
)
@click.option("--force", is_flag=True, help="Overwrite the output file if it exists.")
@reading_options
def chart(
    trace: Path,
    kind: str,
    output: Path,
    phase: str | None,
    theme: str,
    model_config: Path | None,
    reading: Reading,
    *,
    force: bool,
) -> None:
    """Draw TRACE: shares per category, the typical step as a grid or strip, layers, step times.

    Needs the extra: pip install 'kernelscope[report]'.

    Example: kernelscope chart trace.sqlite --kind grid -o step.svg
    """
    from kernelscope.charts import render_chart
    from kernelscope.writing import check_target, write_file

    if (kind == "roofline") != (model_config is not None):
        raise click.UsageError("--model-config and --kind roofline go together.")
    check_target(output, overwrite=force, trace=trace)
    if model_config is not None:
        made = _roofline(reading, trace, model_config, phase, theme)
    else:
        made = _plot(reading, trace, kind, phase, theme)
    rendered = render_chart(made, output.suffix.removeprefix(".").lower())
    write_file(output, rendered, overwrite=force)
    click.echo(f"wrote {output}", err=True)


def _plot(reading: Reading, trace: Path, kind: str, phase: str | None, theme: str) -> Any:
    from dataclasses import replace

    summary = reading.summarize(trace, layers=kind == "layers")
    return getattr(replace(summary.plot, theme=theme), kind)(phase)


def _roofline(reading: Reading, trace: Path, config: Path, phase: str | None, theme: str) -> Any:
    from kernelscope.ceilings import roofline

    return reading.apply(roofline, trace, config).plot(phase, theme=theme)
