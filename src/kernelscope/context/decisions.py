"""What a pass over the sequence decides, and how decisions become new names."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import polars as pl

from kernelscope.context.sequence import Ints
from kernelscope.placement import Placed

_VARIANT = {"old": pl.Int32, "category": pl.String, "method": pl.String, "pair": pl.Int64}


@dataclass(frozen=True)
class Decisions:
    """What one pass decided: kernels by position, and for each the row of its variant.

    ``variants`` has the columns ``old`` (int32, the name as it was), ``category``, ``method``
    (null where they stay) and ``pair`` (int64, null where there is none).
    """

    position: Ints
    variant: Ints
    variants: pl.DataFrame


def distinct(rows: pl.DataFrame) -> tuple[pl.DataFrame, Ints]:
    """The distinct rows, and for each row which of them it is."""
    distinct = rows.unique(maintain_order=True)
    numbered = distinct.with_row_index("number")
    number = rows.join(numbered, on=rows.columns, how="left", maintain_order="left")["number"]
    return distinct, number.cast(pl.Int64).to_numpy()


def variants(table: pl.DataFrame) -> pl.DataFrame:
    """The columns of ``_VARIANT``, null where the table has none."""
    return table.select(
        (pl.col(name) if name in table.columns else pl.lit(None)).cast(dtype).alias(name)
        for name, dtype in _VARIANT.items()
    )


def rename(
    placed: Placed, names: pl.DataFrame, passes: Sequence[Decisions]
) -> tuple[Placed, pl.DataFrame]:
    """A new name for each variant; kernels that were decided get it."""
    name = placed.work["name"].to_numpy().copy()
    for decisions in passes:
        name[decisions.position] = names.height + decisions.variant
        old = names[decisions.variants["old"]]
        added = old.with_columns(
            decisions.variants["category"].fill_null(old["category"]),
            decisions.variants["method"].fill_null(old["method"]),
            decisions.variants["pair"],
        )
        names = pl.concat([names, added])
    work = placed.work.with_columns(pl.Series("name", name))
    return replace(placed, work=work), names
