"""Events as JSON text, column by column: no kernel is touched by Python on its own."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence

import polars as pl

_BATCH_ROWS = 50_000


def head(name: str, category: str, args: Mapping[str, object], *, colour: str | None = None) -> str:
    """The beginning of an event: all that events of one kind share, ready for :func:`slices`."""
    event = {"ph": "X", "name": name, "cat": category}
    if colour:
        event["cname"] = colour
    text = json.dumps(event)[:-1]
    return f'{text}, "args": {json.dumps(args)[:-1]}{", " if args else ""}'


def slices(events: pl.DataFrame, heads: Sequence[str], origin_ns: int) -> Iterator[str]:
    """Complete events ("X"), joined by commas, batch by batch.

    Args:
        events: ``start_ns``, ``end_ns``, ``pid``, ``tid``, ``step`` (null outside every step)
            and ``head``, an index into ``heads``.
        heads: from :func:`head`.
        origin_ns: time 0.
    """
    texts = pl.Series(heads, dtype=pl.String)
    for batch in events.iter_slices(_BATCH_ROWS):
        named = batch.with_columns(texts.gather(batch["head"]).alias("text"))
        text = _spelled(
            '{}"step": {}}, "pid": {}, "tid": {}, "ts": {}, "dur": {}}',
            "text",
            pl.col("step").cast(pl.String).fill_null("null"),
            "pid",
            "tid",
            microseconds(pl.col("start_ns") - origin_ns),
            microseconds(pl.col("end_ns") - pl.col("start_ns")),
        )
        yield from named.select(text.str.join(",\n")).to_series()


def flows(ends: pl.DataFrame, kind: str, origin_ns: int) -> Iterator[str]:
    """The beginnings ("s") or ends ("f") of arrows, joined by commas, batch by batch.

    Args:
        ends: ``id``, ``at_ns``, ``pid``, ``tid``.
        kind: ``"s"`` or ``"f"``; an end is tied to the event that runs at that time.
        origin_ns: time 0.
    """
    bound = ', "bp": "e"' if kind == "f" else ""
    for batch in ends.iter_slices(_BATCH_ROWS):
        text = _spelled(
            f'{{"ph": "{kind}", "name": "launch", "cat": "launch"{bound}, '
            '"id": {}, "pid": {}, "tid": {}, "ts": {}}',
            "id",
            "pid",
            "tid",
            microseconds(pl.col("at_ns") - origin_ns),
        )
        yield from batch.select(text.str.join(",\n")).to_series()


def microseconds(time_ns: pl.Expr) -> pl.Expr:
    """Nanoseconds of at least 0 as decimal text in microseconds, exact: ``12.345``."""
    rest = (time_ns % 1_000).cast(pl.String).str.zfill(3)
    return pl.concat_str(time_ns // 1_000, pl.lit("."), rest)


def _spelled(template: str, *columns: str | pl.Expr) -> pl.Expr:
    """The template with a column in place of each ``{}``; other braces stand for themselves."""
    first, *rest = template.split("{}")
    parts: list[str | pl.Expr] = [pl.lit(first)]
    for column, text in zip(columns, rest, strict=True):
        parts += [column, pl.lit(text)]
    return pl.concat_str(parts)


def document(batches: Iterator[str], facts: Mapping[str, object]) -> Iterator[str]:
    """The whole file: the events of all batches, and what they are of."""
    yield '{"traceEvents": [\n'
    separator = ""
    for batch in batches:
        yield f"{separator}{batch}"
        separator = ",\n"
    yield f'\n], "displayTimeUnit": "ms", "otherData": {json.dumps(facts)}}}\n'
