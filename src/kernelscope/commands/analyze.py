"""``kernelscope analyze``."""

from __future__ import annotations

import shutil
from pathlib import Path

import click

from kernelscope.commands.options import load, rules_option


@click.command(short_help="Make a run's tables again from its exports.")
@click.argument("run", type=click.Path(path_type=Path))
@rules_option
@click.pass_context
def analyze(ctx: click.Context, run: Path, rules_path: Path | None) -> None:
    """Make the analysis folder of RUN from what is in its raw folder, and print the phases.

    RUN is a folder that kernelscope capture made. Each export must be the one that was recorded.
    Exits with 1 if the capture is not what was asked for.

    Example: kernelscope analyze runs/2026-12-07_llama-8b_bfloat16_capture
    """
    from kernelscope.rendering.runs import render_text
    from kernelscope.runs import analyze_run

    analysis = analyze_run(run, rules=load(rules_path))
    click.echo(render_text(analysis, shutil.get_terminal_size().columns), nl=False)
    ctx.exit(1 if analysis.problems else 0)
