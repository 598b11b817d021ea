"""``kernelscope classify``."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

import click

from kernelscope.commands.options import load, rules_option

FORMATS = ("table", "json", "csv")


@click.command(short_help="Say what kernels are, by their names.")
@click.argument("names", nargs=-1, metavar="NAME...")
@click.option(
    "--file",
    "file",
    type=click.Path(path_type=Path, exists=True, dir_okay=False),
    help="Read names from this file, one a line.",
)
@click.option("--format", "format_", type=click.Choice(FORMATS), default="table", show_default=True)
@click.option("--explain", is_flag=True, help="Show which rules were tried on each name.")
@rules_option
def classify(
    names: Sequence[str], file: Path | None, format_: str, rules_path: Path | None, *, explain: bool
) -> None:
    """Say what kernels are, by their names: category, family, and the rule that decides.

    A NAME is a kernel's name, short or in full, demangled or not; "-" reads names from standard
    input, one a line.

    Example: kernelscope classify splitKreduce_kernel --explain
    """
    from kernelscope.classification import decide, explain_names
    from kernelscope.rendering.names import FORMATS as RENDERERS
    from kernelscope.rendering.names import render_explanations

    wanted = _wanted(names, file)
    rules = load(rules_path)
    if explain:
        click.echo(render_explanations(explain_names(wanted, rules)), nl=False)
        return
    click.echo(RENDERERS[format_](decide(wanted, rules)), nl=False)


def _wanted(names: Sequence[str], file: Path | None) -> list[str]:
    wanted: list[str] = []
    for name in names:
        wanted += sys.stdin.read().splitlines() if name == "-" else [name]
    if file is not None:
        wanted += file.read_text("utf-8", errors="replace").splitlines()
    wanted = [name for name in wanted if name.strip()]
    if not wanted:
        raise click.UsageError("Give a kernel name, '-' for standard input, or --file.")
    return wanted
