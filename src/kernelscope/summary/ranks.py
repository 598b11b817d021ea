"""Several ranks of one run side by side: medians, the slowest, and who waits for whom.

Times of ranks are compared, never added. A collective kernel spins until the last rank has
arrived, so its duration is mostly waiting: aligned by their place in the step, collectives that
belong together begin to transfer when the last of them starts.
"""

from __future__ import annotations

import polars as pl

from kernelscope.placement import Placed
from kernelscope.step_table import COMPLETE
from kernelscope.summary.tables import PHASE_KEYS

_NS_PER_MS = 1e6
_ACROSS = ["phase", "batch"]
_PLACE = ["phase", "batch", "ordinal", "place"]


def combine_ranks(categories: pl.DataFrame) -> pl.DataFrame:
    """Categories over ranks.

    Args:
        categories: a summary's category table.

    Returns:
        One row per phase, batch and category: ``ranks`` (how many have it),
        ``median_kernel_ms``, ``slowest_kernel_ms`` (float64, per step) and ``slowest_rank``
        (uint16), the rank that spends most in it.
    """
    ms = pl.col("kernel_ms")
    return (
        categories.group_by(*_ACROSS, "category", "family")
        .agg(
            ranks=pl.len(),
            median_kernel_ms=ms.median(),
            slowest_kernel_ms=ms.max(),
            slowest_rank=pl.col("rank").sort_by(ms, "rank", descending=[True, False]).first(),
        )
        .sort(*_ACROSS, "median_kernel_ms", "category", descending=[False, False, True, False])
    )


def split_collectives(placed: Placed, names: pl.DataFrame, steps: pl.DataFrame) -> pl.DataFrame:
    """Waiting and transfer of the collectives of each rank.

    A collective waits until the last rank's counterpart (same place in the same step) starts;
    the rest is transfer. Steps in which ranks differ in their number of collectives are left
    out.

    Args:
        placed: the kernels.
        names: :attr:`kernelscope.analysis.Analysis.names`.
        steps: the step table with ``batch``.

    Returns:
        One row per rank, phase and batch with collectives on every rank: ``steps`` (compared),
        ``collectives_per_step``, ``communication_ms``, ``wait_ms``, ``transfer_ms`` (float64,
        means per step). Empty for a single rank.
    """
    kernels = _collectives(placed, names, steps)
    ranks = steps.filter(pl.col("status") == COMPLETE)["rank"].n_unique()
    duration = pl.col("end_ns") - pl.col("start_ns")
    waited = (pl.col("start_ns").max().over(_PLACE) - pl.col("start_ns")).clip(0, duration)
    return (
        kernels.with_columns(present=pl.len().over(_PLACE))
        .filter((pl.col("present") == ranks).all().over("phase", "batch", "ordinal"))
        .filter(pl.lit(ranks > 1))
        .with_columns(wait=waited, duration=duration)
        .group_by(PHASE_KEYS)
        .agg(
            steps=pl.col("ordinal").n_unique(),
            collectives=pl.len(),
            communication_ns=pl.col("duration").sum(),
            wait_ns=pl.col("wait").sum(),
        )
        .select(
            *PHASE_KEYS,
            "steps",
            collectives_per_step=pl.col("collectives") / pl.col("steps"),
            communication_ms=pl.col("communication_ns") / pl.col("steps") / _NS_PER_MS,
            wait_ms=pl.col("wait_ns") / pl.col("steps") / _NS_PER_MS,
            transfer_ms=(pl.col("communication_ns") - pl.col("wait_ns"))
            / pl.col("steps")
            / _NS_PER_MS,
        )
        .sort(PHASE_KEYS)
    )


def _collectives(placed: Placed, names: pl.DataFrame, steps: pl.DataFrame) -> pl.DataFrame:
    """Communication kernels of complete steps, with their place.

    ``ordinal`` is the step's number among its phase's on that rank, ``place`` the kernel's among
    the step's collectives.
    """
    is_collective = (names["category"] == "communication").arg_true().cast(pl.Int32)
    chosen = steps.filter(pl.col("status") == COMPLETE).with_columns(
        ordinal=pl.int_range(pl.len()).over("rank", *_ACROSS)
    )
    return (
        placed.work.filter(pl.col("name").is_in(is_collective.implode()))
        .join(placed.groups, on="group")
        .join(chosen.select("rank", "step", *_ACROSS, "ordinal"), on=["rank", "step"])
        .sort("rank", "step", "start_ns")
        .with_columns(place=pl.int_range(pl.len()).over("rank", "step"))
        .select(*PHASE_KEYS, "ordinal", "place", "start_ns", "end_ns")
    )
