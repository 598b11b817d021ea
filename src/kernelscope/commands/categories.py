"""``kernelscope categories``."""

from __future__ import annotations

import click

FORMATS = ("table", "json", "markdown")


@click.command(short_help="Print the categories and what each means.")
@click.option("--format", "format_", type=click.Choice(FORMATS), default="table", show_default=True)
def categories(format_: str) -> None:
    """Print the categories: what each means, its kernels, and who emits them.

    Example: kernelscope categories --format markdown
    """
    from kernelscope.rendering.rules import CATEGORY_FORMATS
    from kernelscope.rules import load_rules

    click.echo(CATEGORY_FORMATS[format_](load_rules()), nl=False)
