"""Options and values that several commands share."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

if TYPE_CHECKING:
    from kernelscope.rules import RuleTable

F = TypeVar("F", bound=Callable[..., Any])


def rules_option(command: F) -> F:
    """``--rules FILE``: a user's rules, laid over the built-in table."""
    return click.option(
        "--rules",
        "rules_path",
        type=click.Path(path_type=Path),
        help="A rules file (TOML), tried before the built-in rules.",
    )(command)


def load(rules_path: Path | None) -> RuleTable:
    """The built-in table, with a user's file over it if one is given."""
    from kernelscope.rules import load_rules

    return load_rules(rules_path)


def parse_share(ctx: click.Context, param: click.Parameter, value: str | None) -> float | None:
    """A share as people write it (``1%``, ``0.5 %``, ``0.01``) as a fraction."""
    if value is None:
        return None
    text = value.strip()
    try:
        share = float(text.removesuffix("%")) / (100 if text.endswith("%") else 1)
    except ValueError:
        share = -1.0
    if not 0 <= share <= 1:
        raise click.BadParameter(f"{value!r} is not a share such as 1% or 0.01.", ctx, param)
    return share
