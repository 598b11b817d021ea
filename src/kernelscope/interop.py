"""To pandas and pyarrow, for who works in them; imported on use."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import polars as pl

if TYPE_CHECKING:
    import pandas
    import pyarrow


def to_arrow(frame: pl.DataFrame, metadata: Mapping[str, str] | None = None) -> pyarrow.Table:
    """The frame as an Arrow table; ``metadata`` is added to its schema."""
    table = frame.to_arrow()
    if not metadata:
        return table
    kept = dict(table.schema.metadata or {})
    added = {key.encode(): value.encode() for key, value in metadata.items()}
    return table.replace_schema_metadata(kept | added)


def to_pandas(frame: pl.DataFrame) -> pandas.DataFrame:
    """The frame as a pandas DataFrame."""
    return frame.to_pandas()


def to_parquet_bytes(frame: pl.DataFrame, metadata: Mapping[str, str]) -> bytes:
    """The frame as a Parquet file (zstd), with ``metadata`` in its schema."""
    import io

    import pyarrow.parquet

    sink = io.BytesIO()
    pyarrow.parquet.write_table(to_arrow(frame, metadata), sink, compression="zstd")
    return sink.getvalue()
