"""The table of steps, in every form."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping

import polars as pl
from rich.console import Console
from rich.table import Table
from rich.text import Text

from kernelscope import interop
from kernelscope.rendering import wording
from kernelscope.rendering.data import to_csv, to_json
from kernelscope.rendering.markdown import table_lines
from kernelscope.rendering.plain import WIDTH, plain
from kernelscope.summary.model import Summary

BINARY = frozenset({"parquet"})

# Column of the table -> heading where people read it; the other forms have every column.
_SHOWN = {
    "step": "step",
    "phase": "phase",
    "requests": "req",
    "tokens": "tok",
    "start_ms": "start",
    "wall_ms": "wall",
    "span_ms": "span",
    "kernel_ms": "kernel",
    "idle_ms": "idle",
    "kernels": "kernels",
    "graph_launches": "graphs",
    "launch_calls": "calls",
    "status": "status",
}
_HIDDEN_WHEN_NARROW = ("start_ms", "graph_launches")
_SURE = 2.0
_MOST_TRENDS = 6


def render_text(summary: Summary, width: int = WIDTH) -> str:
    """A table and the trends that are surely there; a narrow one has fewer columns."""
    return plain(lambda console: _print(summary, console), width)


def _print(summary: Summary, console: Console) -> None:
    hidden = _HIDDEN_WHEN_NARROW if console.width < WIDTH else ()
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for heading in _headings(summary, hidden):
        is_text = heading in ("phase", "status")
        table.add_column(heading, no_wrap=True, justify="left" if is_text else "right")
    for row in _cells(summary, hidden):
        table.add_row(*map(Text, row))
    console.print(
        f"{wording.clean(summary.info.path)}: steps by {summary.step_method}, times in ms"
    )
    console.print()
    console.print(table)
    for line in _trend_lines(summary):
        console.print(line)


def render_markdown(summary: Summary) -> str:
    """A table."""
    headings = _headings(summary)
    align = "".join("l" if heading in ("phase", "status") else "r" for heading in headings)
    return "\n".join(table_lines(headings, align, _cells(summary))) + "\n"


STEP_FORMATS: Mapping[str, Callable[[Summary], str | bytes]] = {
    "text": render_text,
    "json": lambda summary: to_json(
        {
            **summary.provenance(),
            "step_evidence": summary.step_evidence,
            "steps": summary.steps().to_dicts(),
            "trends": summary.table("trend").to_dicts(),
        }
    ),
    "csv": lambda summary: to_csv(summary.steps()),
    "markdown": render_markdown,
    "parquet": lambda summary: interop.to_parquet_bytes(summary.steps(), summary.provenance()),
}
"""Format name -> function of a summary."""


def _columns(summary: Summary, hidden: Collection[str]) -> list[str]:
    columns = [column for column in _SHOWN if column not in hidden]
    return ["rank", *columns] if len(summary.ranks) > 1 else columns


def _headings(summary: Summary, hidden: Collection[str] = ()) -> list[str]:
    return [_SHOWN.get(column, column) for column in _columns(summary, hidden)]


def _cells(summary: Summary, hidden: Collection[str] = ()) -> Iterator[list[str]]:
    steps = summary.steps().with_columns(
        requests=pl.sum_horizontal("context_requests", "generation_requests", ignore_nulls=False),
        tokens=pl.sum_horizontal("context_tokens", "generation_tokens", ignore_nulls=False),
    )
    columns = _columns(summary, hidden)
    for row in steps.to_dicts():
        yield [_cell(column, row.get(column)) for column in columns]


def _cell(column: str, value: object) -> str:
    if value is None:
        return "–"
    if isinstance(value, float):
        return f"{value:,.2f}" if column == "start_ms" else wording.milliseconds(value)
    return f"{value:,}" if isinstance(value, int) else wording.clean(str(value))


def _trend_lines(summary: Summary) -> Iterator[str]:
    """Slopes of more than two standard errors, largest first."""
    slope, error = pl.col("slope_ns"), pl.col("slope_error_ns")
    sure = summary.table("trend").filter(slope.abs() > _SURE * error)
    sure = sure.sort(slope.abs(), descending=True)
    if sure.is_empty():
        return
    yield ""
    yield "time per category along the run (slope ± standard error)"
    for row in sure.head(_MOST_TRENDS).to_dicts():
        yield (
            f"  {row['phase']} {row['category']}: {row['slope_ns']:+,.1f} ± "
            f"{row['slope_error_ns']:,.1f} ns per {row['unit']}"
        )
