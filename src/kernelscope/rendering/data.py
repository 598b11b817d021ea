"""JSON, CSV and Parquet of a summary."""

from __future__ import annotations

import json

import polars as pl

from kernelscope import interop
from kernelscope.rendering import wording
from kernelscope.summary.model import Summary


def render_json(summary: Summary, by: str) -> str:
    """Everything, with the documented keys. Numbers that do not exist are null."""
    return to_json(summary.to_dict(by))


def render_csv(summary: Summary, by: str) -> str:
    """One of the tables, with a header line."""
    return to_csv(summary.table(by))


def render_parquet(summary: Summary, by: str) -> bytes:
    """One of the tables (zstd), its origin in the schema's metadata."""
    return interop.to_parquet_bytes(summary.table(by), summary.provenance())


def to_json(data: object) -> str:
    """Plain data as JSON; its own escapes leave a terminal nothing to act on."""
    text = json.dumps(data, indent=2, ensure_ascii=False, allow_nan=False)
    shown = (json.dumps(c)[1:-1] if c != "\n" and wording.is_control(c) else c for c in text)
    return "".join(shown) + "\n"


def to_csv(table: pl.DataFrame) -> str:
    """A frame as CSV; control characters are replaced, as in a report."""
    cleaned = pl.col(pl.String).map_elements(wording.clean, return_dtype=pl.String)
    return table.with_columns(cleaned).write_csv()
