"""Decisions on single kernel names, as a table, JSON or CSV, and with the rules tried."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence

import polars as pl
from rich import box
from rich.table import Table
from rich.text import Text

from kernelscope.classification import Attempt
from kernelscope.rendering import wording
from kernelscope.rendering.plain import plain

_NAME_WIDTH = 56
_TEXT_WIDTH = 80


def render_table(decided: pl.DataFrame) -> str:
    """Aligned columns; long names are cut, everything else is whole."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False)
    for column in decided.columns:
        table.add_column(column, no_wrap=True, overflow="ellipsis")
    for row in decided.iter_rows():
        name, *rest = ("" if cell is None else str(cell) for cell in row)
        table.add_row(Text(wording.clean(name, _NAME_WIDTH)), *map(wording.clean, rest))
    return plain(lambda console: console.print(table), width=_NAME_WIDTH + _TEXT_WIDTH)


def render_json(decided: pl.DataFrame) -> str:
    """A list of objects."""
    return json.dumps(decided.to_dicts(), indent=2, ensure_ascii=False) + "\n"


def render_csv(decided: pl.DataFrame) -> str:
    """With a header line."""
    return decided.write_csv()


FORMATS: Mapping[str, Callable[[pl.DataFrame], str]] = {
    "table": render_table,
    "json": render_json,
    "csv": render_csv,
}


def render_explanations(explained: Iterable[tuple[str, Sequence[Attempt]]]) -> str:
    """For each name the rules that were tried on it, in order, and which one won."""
    return "".join(line + "\n" for name, tried in explained for line in _explanation(name, tried))


def _explanation(name: str, tried: Sequence[Attempt]) -> Iterable[str]:
    yield wording.clean(name)
    texts = {attempt.method: attempt.text for attempt in tried}
    for method, text in texts.items():
        yield f"  {method}: {wording.clean(text, _TEXT_WIDTH) if text else '(none)'}"
    for number, attempt in enumerate(tried, start=1):
        outcome = f"yes: {attempt.category}" if attempt.matched else "no"
        yield f"  {number:>3}. {attempt.rule_id} ({attempt.method}) {outcome}"
    if not (tried and tried[-1].matched):
        yield "  no rule matches: unknown"
