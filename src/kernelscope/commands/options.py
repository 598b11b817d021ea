"""Options that several commands share: how a trace is read, and where results go."""

from __future__ import annotations

import functools
import re
import sys
from collections.abc import Callable, Container
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

if TYPE_CHECKING:
    from kernelscope.rules import RuleTable
    from kernelscope.summary import Summary

Command = Callable[..., Any]
T = TypeVar("T")

# Names, not imports; a test holds them equal to the methods of the library.
STEP_METHODS = ("auto", "nvtx", "graph", "marker", "gaps", "none")


@dataclass(frozen=True)
class Reading:
    """What a user asked for about reading a trace; see the help of the options."""

    steps_by: str
    marker: str | None
    window: tuple[int | None, int | None]
    skip_first: int
    split_by: str | None
    context: bool
    inductor_cache: Path | None
    rules_path: Path | None

    def summarize(self, trace: Path, *, layers: bool = False) -> Summary:
        """Read a trace and summarize it, with a progress bar where someone is looking."""
        from kernelscope.summary import summarize

        split = self.split_by == "batch"
        return self.apply(summarize, trace, split_by_batch=split, layers=layers)

    def apply(self, function: Callable[..., T], trace: Path, *more: object, **options: object) -> T:
        """Read a trace and give it to a function of the library, with what was asked for."""
        from kernelscope.nsys import read_export
        from kernelscope.rendering.progress import ReadingProgress
        from kernelscope.step_table import Choice
        from kernelscope.steps import split_steps

        rules = load(self.rules_path)
        with ReadingProgress() as progress:
            opened = read_export(trace, progress=progress.update)
            return function(
                opened,
                *more,
                steps=split_steps(opened, method=self.steps_by, marker=self.marker),
                rules=rules,
                context=self.context,
                inductor_cache=self.inductor_cache,
                choice=Choice(*self.window, skip=self.skip_first),
                **options,
            )


def reading_options(command: Command) -> Command:
    """The options of :class:`Reading`; the command gets one as ``reading``."""

    @functools.wraps(command)
    def with_reading(*args: Any, **options: Any) -> Any:
        mine = {name: options.pop(name) for name in Reading.__dataclass_fields__}
        return command(*args, reading=Reading(**mine), **options)

    for option in reversed(_READING):
        with_reading = option(with_reading)
    return rules_option(with_reading)


def rules_option(command: Command) -> Command:
    """``--rules FILE``: a user's rules, laid over the built-in table."""
    return click.option(
        "--rules",
        "rules_path",
        type=click.Path(path_type=Path),
        help="A rules file (TOML), tried before the built-in rules.",
    )(command)


def output_options(command: Command) -> Command:
    """``-o FILE`` and ``--force``."""
    command = click.option("--force", is_flag=True, help="Overwrite the output file if it exists.")(
        command
    )
    return click.option(
        "-o", "--output", type=click.Path(path_type=Path), help="Write to this file."
    )(command)


def database_option(command: Command) -> Command:
    """``--db FILE``, or the environment variable ``KERNELSCOPE_DB``."""
    return click.option(
        "--db",
        type=click.Path(path_type=Path),
        required=True,
        envvar="KERNELSCOPE_DB",
        show_envvar=True,
        help="The SQLite database of runs.",
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


def parse_window(
    ctx: click.Context, param: click.Parameter, value: str | None
) -> tuple[int | None, int | None]:
    """``5:20``, ``5:`` or ``:20``: from the first number on, before the second."""
    if value is None:
        return None, None
    match = re.fullmatch(r"(\d*):(\d*)", value.strip())
    if match is None or not any(match.groups()):
        raise click.BadParameter(f"{value!r} is not a range such as 5:20.", ctx, param)
    first, last = (int(text) if text else None for text in match.groups())
    return first, last


def parse_steps(
    ctx: click.Context, param: click.Parameter, value: str | None
) -> Container[int] | None:
    """``3``, or a window (:func:`parse_window`), as a range of step numbers."""
    if value is None:
        return None
    if re.fullmatch(r"\d{1,9}", value.strip()):
        return range(int(value), int(value) + 1)
    first, last = parse_window(ctx, param, value)
    return range(first or 0, sys.maxsize if last is None else last)


def parse_numbers(ctx: click.Context, param: click.Parameter, value: str) -> tuple[int, ...]:
    """``1,8`` as numbers."""
    if not re.fullmatch(r"\s*\d{1,9}\s*(,\s*\d{1,9}\s*)*", value):
        raise click.BadParameter(f"{value!r} is not a list of numbers such as 1,8.", ctx, param)
    return tuple(int(text) for text in value.split(","))


_READING = (
    click.option(
        "--steps-by",
        type=click.Choice(STEP_METHODS),
        default="auto",
        show_default=True,
        help="How to find steps; auto takes the first way that works, none is the whole trace.",
    ),
    click.option(
        "--marker", help="With --steps-by marker: a regex for the kernel that marks steps."
    ),
    click.option(
        "--steps",
        "window",
        callback=parse_window,
        help="Average only steps with these numbers, e.g. 5:20 (20 not included).",
    ),
    click.option(
        "--skip-first",
        type=click.IntRange(min=0),
        default=0,
        help="Leave out this many complete steps at the beginning of each phase.",
    ),
    click.option(
        "--split-by",
        type=click.Choice(("batch",)),
        help="Average steps of different numbers of requests apart.",
    ),
    click.option(
        "--context/--no-context",
        default=True,
        show_default=True,
        help="Decide by surroundings what kernel names cannot.",
    ),
    click.option(
        "--inductor-cache",
        type=click.Path(path_type=Path),
        help="A folder with Inductor's generated sources, to learn what its kernels do.",
    ),
)
