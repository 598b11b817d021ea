"""Kernels that Inductor generated without operations in their names."""

from __future__ import annotations

import numpy as np
import polars as pl

from kernelscope.context.decisions import Decisions, distinct, variants
from kernelscope.context.sequence import GENERATED, MULTIPLIES, REDUCTIONS, Ints, LaunchSequence
from kernelscope.rules.tables import UNKNOWN

# Arithmetic alone does not tell what a kernel is for: its place may.
_UNTELLING = ("elementwise", "reduce", UNKNOWN)
_BEFORE_ROPE_ENDS = ("kv_cache", "attention")


def decide_generated(
    sequence: LaunchSequence, names: pl.DataFrame, sources: pl.DataFrame
) -> Decisions:
    """Decide generated kernels without operations in their names.

    A run of such kernels is looked at as one, with its decided neighbours on both sides.
    """
    position = np.flatnonzero(sequence.names.is_open[sequence.name])
    surroundings, variant = distinct(_surroundings(sequence, position))
    decided = (
        surroundings.with_columns(
            before_category=sequence.category("before"), after_category=sequence.category("after")
        )
        .join(
            _named_places(sequence, names),
            on=["before_category", "after_category"],
            how="left",
            nulls_equal=True,
            maintain_order="left",
        )
        .pipe(_with_source, names["name"], sources)
        .with_columns(_category_and_method())
        .unnest("decision")
    )
    return Decisions(position, variant, variants(decided))


def _with_source(
    surroundings: pl.DataFrame, texts: pl.Series, sources: pl.DataFrame
) -> pl.DataFrame:
    """Add ``source``, what the sources say of a kernel by its name and its successor's.

    A successor in the step may belong to another graph, so a kernel that ends its graph is looked
    up without one. Definitions that disagree decide nothing.
    """
    agreed = sources.group_by("name", "following").agg(source=pl.col("source").unique())
    agreed = agreed.filter(pl.col("source").list.len() == 1).explode("source")
    last = agreed.filter(pl.col("following").is_null()).select("name", source_as_last="source")
    named = surroundings.with_columns(
        texts.gather(surroundings["old"]).alias("name"),
        texts.gather(surroundings["following"].replace(-1, None)).alias("following_name"),
    )
    return (
        named.join(
            agreed.rename({"following": "following_name"}),
            on=["name", "following_name"],
            how="left",
            maintain_order="left",
        )
        .join(last, on="name", how="left", maintain_order="left")
        .with_columns(source=pl.coalesce("source", "source_as_last"))
    )


def _category_and_method() -> pl.Expr:
    """The passes for generated kernels, in their order; see the module's docstring."""
    reduction = pl.col("is_reduction")
    ends_in_rope = pl.col("after_category").is_in(_BEFORE_ROPE_ENDS) & pl.col(
        "before_category"
    ).is_in(MULTIPLIES)

    def decision(category: pl.Expr | str, method: str) -> pl.Expr:
        chosen = pl.lit(category) if isinstance(category, str) else category
        return pl.struct(category=chosen, method=pl.lit(method))

    return (
        pl.when(pl.col("source").is_not_null() & pl.col("source").is_in(_UNTELLING).not_())
        .then(decision(pl.col("source"), "inductor-source"))
        .when(reduction & pl.col("behind_lm_head").not_())
        .then(decision("norm", "context-norm"))
        .when(reduction)
        .then(decision("sampling", "context-sampling"))
        .when(pl.col("place").is_not_null() & pl.col("has_reduction").not_() & pl.col("is_first"))
        .then(decision(pl.col("place"), "context-place"))
        .when(ends_in_rope)
        .then(decision("rope", "context-rope"))
        .otherwise(decision("elementwise", "context-pointwise"))
        .alias("decision")
    )


def _surroundings(sequence: LaunchSequence, position: Ints) -> pl.DataFrame:
    """One row per open kernel: its name, the names around its run, and facts on both."""
    group = sequence.group[position]
    follows = np.zeros(position.size, bool)
    follows[1:] = (position[1:] == position[:-1] + 1) & (group[1:] == group[:-1])
    run = np.cumsum(~follows) - 1
    first = np.flatnonzero(~follows)
    last = np.append(first[1:], position.size)[: first.size] - 1
    is_reduction = sequence.names.is_reduction[sequence.name[position]]
    has_reduction = np.zeros(first.size, bool)
    has_reduction[run[is_reduction]] = True
    return pl.DataFrame(
        {
            "old": sequence.name[position],
            "before": sequence.neighbour(position[first], -1)[run],
            "after": sequence.neighbour(position[last], 1)[run],
            "is_first": ~follows,
            "is_reduction": is_reduction,
            "has_reduction": has_reduction[run],
            "following": sequence.following_generated(position),
            "behind_lm_head": position > sequence.last_multiply[group],
        }
    )


def _named_places(sequence: LaunchSequence, names: pl.DataFrame) -> pl.DataFrame:
    """Where generated pointwise kernels with operations in their names stand.

    Returns:
        ``before_category``, ``after_category`` and, where all such kernels there agree,
        ``place``, their category.
    """
    is_named = names.select(
        pl.col("name").str.contains(GENERATED)
        & (pl.col("category") != UNKNOWN)
        & pl.col("name").str.contains(REDUCTIONS).not_()
    ).to_series()
    position = np.flatnonzero(is_named.to_numpy()[sequence.name])
    stands = pl.DataFrame(
        {
            "before": sequence.neighbour(position, -1),
            "after": sequence.neighbour(position, 1),
            "name": sequence.name[position],
        }
    )
    return (
        stands.unique()
        .select(
            before_category=sequence.category("before"),
            after_category=sequence.category("after"),
            category=sequence.category("name"),
        )
        .group_by("before_category", "after_category")
        .agg(place=pl.col("category").unique())
        .filter(pl.col("place").list.len() == 1)
        .with_columns(pl.col("place").list.first())
    )
