"""The tables of a summary: per category, family and kernel name, over complete steps."""

from __future__ import annotations

import polars as pl

from kernelscope.step_table import COMPLETE, TRACE
from kernelscope.steps.labels import DECODE, MIXED, PREFILL

PHASES = (DECODE, PREFILL, MIXED, TRACE)
"""The phases that have averages, in the order in which they are shown."""

_NS_PER_MS = 1e6
_ORDER = {phase: number for number, phase in enumerate(PHASES)}
PHASE_KEYS = ("rank", "phase", "batch")
"""What a row of averages stands for; ``batch`` is null unless steps are split by it."""


def kernel_table(by_name: pl.DataFrame, steps: pl.DataFrame, names: pl.DataFrame) -> pl.DataFrame:
    """One row per rank, phase and kernel name, over the phase's complete steps.

    Args:
        by_name: :attr:`kernelscope.measure.Measured.by_name`.
        steps: the step table, with ``status``.
        names: :attr:`kernelscope.analysis.Analysis.names`.
    """
    complete = steps.filter(pl.col("status") == COMPLETE).select(*PHASE_KEYS, "step")
    counted = complete.group_by(PHASE_KEYS).len("steps")
    sums = (
        by_name.join(complete, on=["rank", "step"])
        .group_by(*PHASE_KEYS, "name")
        .agg(pl.col("kernels", "kernel_ns").sum(), pl.col("longest_ns").max())
        .join(counted, on=list(PHASE_KEYS), nulls_equal=True)
        .rename({"name": "number"})
        .join(
            names.with_columns(pl.int_range(pl.len(), dtype=pl.Int32).alias("number")),
            on="number",
            how="left",
        )
    )
    per_step = sums.select(
        *PHASE_KEYS,
        "name",
        "short_name",
        "category",
        "family",
        "rule_id",
        "method",
        "pair",
        kernels_per_step=pl.col("kernels") / pl.col("steps"),
        kernel_ms=pl.col("kernel_ns") / pl.col("steps") / _NS_PER_MS,
        share=_share(pl.col("kernel_ns")),
        longest_ms=pl.col("longest_ns") / _NS_PER_MS,
    )
    return _largest_first(per_step, "name", "category", "method", "pair")


def with_batch(steps: pl.DataFrame, *, split: bool) -> pl.DataFrame:
    """The step table with ``batch``: requests of the step if asked for, else null."""
    requests = pl.col("context_requests") + pl.col("generation_requests")
    return steps.with_columns(batch=requests if split else pl.lit(None, pl.Int64))


def in_phase(table: pl.DataFrame, rank: int, phase: str, batch: int | None) -> pl.DataFrame:
    """The rows of one rank, phase and batch."""
    return table.filter(
        (pl.col("rank") == rank)
        & (pl.col("phase") == phase)
        & pl.col("batch").eq_missing(pl.lit(batch, pl.Int64))
    )


def group_kernels(kernels: pl.DataFrame, *keys: str) -> pl.DataFrame:
    """The kernel table added up, one row per rank, phase and ``keys``."""
    sums = kernels.group_by(*PHASE_KEYS, *keys).agg(
        pl.col("kernels_per_step", "kernel_ms", "share").sum()
    )
    return _largest_first(sums, *keys)


def _share(part: pl.Expr) -> pl.Expr:
    """Fraction of the phase's total; 0 where nothing took any time."""
    whole = part.sum().over(PHASE_KEYS)
    return pl.when(whole > 0).then(part / whole).otherwise(0.0)


def _largest_first(table: pl.DataFrame, *ties: str) -> pl.DataFrame:
    phase = pl.col("phase").replace_strict(_ORDER, default=None, return_dtype=pl.Int8)
    by = ["rank", phase, "batch", "kernel_ms", "kernels_per_step", *ties]
    return table.sort(by, descending=[False, False, False, True, True, *[False for _ in ties]])
