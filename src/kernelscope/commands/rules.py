"""``kernelscope rules``."""

from __future__ import annotations

from pathlib import Path

import click

from kernelscope.commands.options import load, rules_option


@click.command(short_help="Print the rules, or check them.")
@click.option("--check", is_flag=True, help="Only check the rules, and say how many there are.")
@rules_option
def rules(rules_path: Path | None, *, check: bool) -> None:
    """Print the rules in the order in which they are tried, or check them.

    Example: kernelscope rules --check --rules mine.toml
    """
    from kernelscope.rendering.rules import render_rules
    from kernelscope.rules import check_table

    table = load(rules_path)
    if check:
        check_table(table)
        where = f"{rules_path} over the built-in table" if rules_path else "the built-in table"
        click.echo(f"{len(table.rules)} rules are sound: {where}, version {table.version}")
        return
    click.echo(render_rules(table), nl=False)
