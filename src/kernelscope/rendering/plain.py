"""What a console shows, as plain text for a file or a pipe."""

from __future__ import annotations

import io
from collections.abc import Callable

from rich.console import Console

WIDTH = 100
"""Columns of a text that no terminal shows."""


def plain(show: Callable[[Console], None], width: int = WIDTH) -> str:
    """The text that ``show`` prints to a console of that many columns, without colours."""
    out = io.StringIO()
    show(Console(file=out, width=width, color_system=None))
    return "".join(f"{line.rstrip()}\n" for line in out.getvalue().splitlines())
