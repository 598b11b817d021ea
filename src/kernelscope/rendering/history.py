"""A history of runs in every form; where people read it, with a line of blocks per figure."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Literal

import polars as pl
from rich.console import Console
from rich.table import Table
from rich.text import Text

from kernelscope.findings import plural
from kernelscope.rendering import wording
from kernelscope.rendering.data import to_csv, to_json
from kernelscope.rendering.markdown import escape, table_lines
from kernelscope.rendering.plain import plain

_BLOCKS = "▁▂▃▄▅▆▇█"
_ASCII = "_.-=+*%#"
_DATE = 16
_TRACE_WIDTH = 28
# Column -> heading where people read it; the other forms have every column.
_SHOWN = {
    "when": "captured",
    "trace": "trace",
    "labels": "labels",
    "rank": "rank",
    "batch": "batch",
    "steps": "steps",
    "kernels_per_step": "kernels",
    "step_ms": "step ms",
    "kernel_ms": "kernel ms",
    "category_ms": "category ms",
    "category_share": "share",
}
_TEXTS = ("captured", "trace", "labels")
_FOLDED = ("trace", "labels")
_FIGURES = ("step_ms", "kernel_ms", "category_ms")


def render_text(history: pl.DataFrame) -> str:
    """A plain report, 100 columns wide."""
    return plain(lambda console: print_history(history, console))


def print_history(history: pl.DataFrame, console: Console) -> None:
    """Print a row per run to a console of any width, and how each figure moved."""
    ascii_only = console.options.ascii_only
    console.print(Text(_title(history), style="bold"))
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for heading in _headings(history):
        side: Literal["left", "right"] = "left" if heading in _TEXTS else "right"
        no_wrap = heading not in _FOLDED
        table.add_column(heading, justify=side, overflow="fold", no_wrap=no_wrap)
    for row in _cells(history, _TRACE_WIDTH):
        table.add_row(*map(Text, row))
    console.print(table)
    for remark in _remarks(history):
        console.print(Text(remark))
    console.print()
    for line in _movement(history, ascii_only=ascii_only):
        console.print(Text(line, overflow="fold"))


def render_markdown(history: pl.DataFrame) -> str:
    """A table, and a line of blocks per figure."""
    headings = _headings(history)
    align = "".join("l" if heading in _TEXTS else "r" for heading in headings)
    lines = [f"# {_title(history)}", "", *table_lines(headings, align, _cells(history)), ""]
    lines += [f"- {escape(remark)}" for remark in _remarks(history)]
    lines += [f"- {line}" for line in _movement(history, ascii_only=False)]
    return "\n".join(lines) + "\n"


HISTORY_FORMATS: Mapping[str, Callable[[pl.DataFrame], str]] = {
    "text": render_text,
    "json": lambda history: to_json(history.to_dicts()),
    "csv": to_csv,
    "markdown": render_markdown,
}
"""Format name -> function of a history."""


def sparkline(values: Sequence[float], *, ascii_only: bool = False) -> str:
    """One block per value, from the lowest of them to the highest; all alike: the lowest."""
    blocks = _ASCII if ascii_only else _BLOCKS
    low, high = min(values), max(values)
    if high <= low:
        return blocks[0] * len(values)
    top = len(blocks) - 1
    return "".join(blocks[round((value - low) / (high - low) * top)] for value in values)


def _title(history: pl.DataFrame) -> str:
    phase, runs = history["phase"][0], history["run"].n_unique()
    category = history["category"][0] if "category" in history.columns else None
    what = f"{phase}, {category}" if category else str(phase)
    return f"{wording.clean(what)}: {plural(runs, 'run')}, times per step"


def _remarks(history: pl.DataFrame) -> Iterator[str]:
    """What the columns do not say themselves."""
    if "category" in history.columns:
        yield "share: of the kernel time of a step."
    if history["captured_at"].has_nulls():
        yield "*: recorded then; the trace does not say when it was captured."


def _columns(history: pl.DataFrame) -> list[str]:
    several = {
        "rank": history["rank"].n_unique() > 1,
        "batch": history["batch"].drop_nulls().len() > 0,
        "labels": history["labels"].fill_null("").str.len_bytes().sum() > 0,
    }
    there = [name for name in _SHOWN if name == "when" or name in history.columns]
    return [name for name in there if several.get(name, True)]


def _headings(history: pl.DataFrame) -> list[str]:
    return [_SHOWN[name] for name in _columns(history)]


def _cells(history: pl.DataFrame, trace_width: int | None = None) -> Iterator[list[str]]:
    columns = _columns(history)
    moment = pl.coalesce("captured_at", "recorded_at").str.slice(0, _DATE).str.replace("T", " ")
    mark = pl.when(pl.col("captured_at").is_null()).then(pl.lit("*")).otherwise(pl.lit(""))
    when = moment + mark
    for row in history.with_columns(when=when).to_dicts():
        if trace_width is not None:
            row["trace"] = wording.shorten(row["trace"], trace_width)
        yield [_cell(column, row[column]) for column in columns]


def _cell(column: str, value: object) -> str:
    if value is None:
        return "–"
    if isinstance(value, float):
        if column == "category_share":
            return wording.share(value)
        return wording.count(value) if column == "kernels_per_step" else wording.milliseconds(value)
    return f"{value:,}" if isinstance(value, int) else wording.clean(str(value))


def _movement(history: pl.DataFrame, *, ascii_only: bool) -> Iterator[str]:
    """Per rank and batch, how each figure moved from the oldest to the newest run."""
    several = history.select("rank", "batch").n_unique() > 1
    for (rank, batch), rows in history.group_by(["rank", "batch"], maintain_order=True):
        of = f"rank {rank}" + ("" if batch is None else f" batch {batch}")
        for name in (name for name in _FIGURES if name in history.columns):
            values = rows[name].drop_nulls().to_list()
            if values:
                who = f"{of} " if several else ""
                yield f"{who}{_SHOWN[name]} {sparkline(values, ascii_only=ascii_only)} " + _ends(
                    values
                )


def _ends(values: Sequence[float]) -> str:
    first, final = values[0], values[-1]
    if len(values) == 1:
        return wording.milliseconds(first)
    change = f" ({(final - first) / first:+.1%})" if first > 0 else ""
    return f"{wording.milliseconds(first)} to {wording.milliseconds(final)}{change}"
