"""Steps that are not like the others of their shape, and what they have more or less of.

Equal decode steps must have equal kernel counts; where they do not, a reader should know by what.
"""

from __future__ import annotations

from dataclasses import dataclass

import polars as pl

from kernelscope.step_table import COMPLETE

_SHAPE = ["rank", "phase", "context_requests", "generation_requests", "generation_tokens"]
_MOST_NAMED = 3


@dataclass(frozen=True)
class Deviation:
    """Complete steps of one shape that differ in kernel count from the usual one.

    ``differences`` says of the first of them what it has more or less of, largest first.
    """

    phase: str
    steps: int
    of: int
    step: int
    kernels: int
    usual_kernels: int
    differences: tuple[str, ...]


def find_deviations(
    steps: pl.DataFrame, by_name: pl.DataFrame, names: pl.DataFrame
) -> list[Deviation]:
    """Compare complete steps with the usual one of their shape.

    Args:
        steps: the step table.
        by_name: :attr:`kernelscope.measure.Measured.by_name`.
        names: :attr:`kernelscope.analysis.Analysis.names`.
    """
    complete = steps.filter(pl.col("status") == COMPLETE)
    usual = pl.col("kernels").mode().min().over(_SHAPE)
    compared = complete.with_columns(usual=usual, of=pl.len().over(_SHAPE))
    odd = compared.filter(pl.col("kernels") != pl.col("usual"))
    return [
        _describe(rows, compared.filter(pl.col("kernels") == pl.col("usual")), by_name, names)
        for _, rows in odd.group_by(_SHAPE, maintain_order=True)
    ]


def _describe(
    odd: pl.DataFrame, usual: pl.DataFrame, by_name: pl.DataFrame, names: pl.DataFrame
) -> Deviation:
    first = odd.row(0, named=True)
    like = usual.join(odd.head(1), on=_SHAPE, how="semi", nulls_equal=True).row(0, named=True)
    return Deviation(
        phase=first["phase"],
        steps=odd.height,
        of=first["of"],
        step=first["step"],
        kernels=first["kernels"],
        usual_kernels=first["usual"],
        differences=tuple(_differences(first, like, by_name, names)),
    )


def _differences(
    odd: dict[str, int], like: dict[str, int], by_name: pl.DataFrame, names: pl.DataFrame
) -> list[str]:
    here, there = (
        by_name.filter((pl.col("rank") == step["rank"]) & (pl.col("step") == step["step"])).select(
            "name", "kernels"
        )
        for step in (odd, like)
    )
    shorts = names.select(
        pl.int_range(pl.len(), dtype=pl.Int32).alias("name"), short=pl.col("short_name")
    )
    more = pl.col("kernels").fill_null(0) - pl.col("kernels_usual").fill_null(0)
    found = (
        here.join(there, on="name", how="full", suffix="_usual", coalesce=True)
        .join(shorts, on="name", how="left")
        .group_by("short")
        .agg(more=more.sum())
        .filter(pl.col("more") != 0)
        .sort(pl.col("more").abs(), "short", descending=[True, False])
    )
    return [f"{more:+d} {short}" for short, more in found.head(_MOST_NAMED).rows()]
