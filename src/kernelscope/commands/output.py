"""Where a command's result goes: to a file, or to be read here."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from rich.console import Console


def deliver(
    format_: str,
    render: Callable[[], str],
    show: Callable[[Console], None],
    output: Path | None,
    *,
    force: bool,
) -> None:
    """Write a result to a file and say so, or print it.

    Args:
        format_: its form; text adapts to the terminal, where there is one.
        render: the result in that form.
        show: prints its text to a console.
        output: the file; by default none.
        force: whether a file of that name is replaced.
    """
    if output is None:
        print_result(format_, render, show)
        return
    from kernelscope.writing import write_file

    write_file(output, render(), overwrite=force)
    click.echo(f"wrote {output}", err=True)


def print_result(
    format_: str, render: Callable[[], str | bytes], show: Callable[[Console], None]
) -> None:
    """Text adapts to the terminal; every other form, and a pipe, is the same everywhere."""
    if format_ == "text" and sys.stdout.isatty():
        from rich.console import Console

        show(Console(highlight=False))
        return
    click.echo(render(), nl=False)
