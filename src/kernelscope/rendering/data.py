"""JSON, CSV and Parquet of a summary."""

from __future__ import annotations

import json

from kernelscope import interop
from kernelscope.summary.model import Summary


def render_json(summary: Summary, by: str) -> str:
    """Everything, with the documented keys. Numbers that do not exist are null."""
    return json.dumps(summary.to_dict(by), indent=2, ensure_ascii=False, allow_nan=False) + "\n"


def render_csv(summary: Summary, by: str) -> str:
    """One of the tables, with a header line."""
    return summary.table(by).write_csv()


def render_parquet(summary: Summary, by: str) -> bytes:
    """One of the tables (zstd), its origin in the schema's metadata."""
    return interop.to_parquet_bytes(summary.table(by), summary.provenance())
