"""What a kernel's name cannot settle, settled by its surroundings in the step.

Each pass looks at the kernels of a step in launch order and decides only what the rules left
open; every decision records its pass as the method:

``inductor-source``
    The sources of the run say what a generated kernel does; only if the caller has them.
``context-place``
    A generated kernel without operations in its name (``triton_poi_fused_0``) stands where,
    elsewhere in the trace, generated kernels with operations in their names stand, and those
    agree on one category. Of several in a row only the first stands there.
``context-norm``
    A generated reduction inside the model is the mean of a norm: Inductor reduces for nothing
    else between two matrix multiplies.
``context-rope``
    A generated pointwise kernel directly before the KV-cache write or attention, behind the QKV
    projection, applies the rotary embedding (and with it the scale of the QK-norm).
``context-pointwise``
    Any other generated pointwise kernel is elementwise, which is what "pointwise" says.
``context-sampling``
    An arg-max, softmax, sort or random-number kernel behind lm_head (the last matrix multiply
    of the step) chooses the token.

A split-K reduction stays a category of its own, and is tied to the multiply that was launched
just before it (``pair``).

Decisions are made per distinct surroundings and end as new names, so that nothing later looks
at single launches.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import polars as pl

from kernelscope.placement import Placed
from kernelscope.rules.tables import UNKNOWN

METHODS = (
    "inductor-source",
    "context-place",
    "context-norm",
    "context-rope",
    "context-pointwise",
    "context-sampling",
)

_GENERATED = r"^triton_(?:[a-z]+_)?fused"
_REDUCTIONS = r"^triton_(?:red|per|mix)_"
SOURCES = {"name": pl.String, "following": pl.String, "source": pl.String}

# Arithmetic alone does not tell what a kernel is for: its place may.
_UNTELLING = ("elementwise", "reduce", UNKNOWN)
_MULTIPLIES = ("gemm", "gemv")
_BEFORE_ROPE_ENDS = ("kv_cache", "attention")
_SAMPLERS = r"(?i)arg_?max|softmax|distribution_|exponential|multinomial|RadixSort|topk|sort_"
_SAMPLING_FROM = ("reduce", "elementwise", "copy", "other", UNKNOWN)

Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]


def settle(
    placed: Placed, names: pl.DataFrame, sources: pl.DataFrame | None = None
) -> tuple[Placed, pl.DataFrame]:
    """Decide by context what the names left open.

    Args:
        placed: the kernels in their steps.
        names: one row per number in ``placed.work["name"]``: ``name``, ``category``, ``method``
            and any further columns.
        sources: what the run's sources say of generated kernels: ``name``, ``following`` (name
            of the generated kernel after it, null for the last of its graph), ``source``
            (category).

    Returns:
        The same kernels, sorted by group and start, with a new ``name`` where their
        surroundings decided; and the names with a row for each new one and the column ``pair``
        (int64, the row of the multiply whose parts a kernel adds up).
    """
    names = names.with_columns(pair=pl.lit(None, pl.Int64))
    open_names = _open_names(names)
    if not open_names.any_open:
        return placed, names
    work = _in_launch_order(placed.work)
    sequence = _Sequence.of(work, names, open_names)
    sources = pl.DataFrame(schema=SOURCES) if sources is None else sources
    passes = (_generated(sequence, names, sources), _sampling(sequence), _pairs(sequence))
    return _renamed(replace(placed, work=work), names, passes)


def _in_launch_order(work: pl.DataFrame) -> pl.DataFrame:
    group, start_ns = work["group"].to_numpy(), work["start_ns"].to_numpy()
    in_order = (group[1:] > group[:-1]) | (
        (group[1:] == group[:-1]) & (start_ns[1:] >= start_ns[:-1])
    )
    return work if in_order.all() else work.sort("group", "start_ns", maintain_order=True)


@dataclass(frozen=True)
class _Decisions:
    """What one pass decided: kernels by position, and for each the row of its variant.

    ``variants`` has the columns ``old`` (int32, the name as it was), ``category``, ``method``
    (null where they stay) and ``pair`` (int64, null where there is none).
    """

    position: Ints
    variant: Ints
    variants: pl.DataFrame


_VARIANT = {"old": pl.Int32, "category": pl.String, "method": pl.String, "pair": pl.Int64}


@dataclass(frozen=True)
class _OpenNames:
    """Which names (rows of the names frame) each pass looks at."""

    is_generated: Bools
    is_open: Bools
    is_reduction: Bools
    is_sampler: Bools
    is_splitk: Bools

    @property
    def any_open(self) -> bool:
        return bool((self.is_open | self.is_sampler | self.is_splitk).any())


def _open_names(names: pl.DataFrame) -> _OpenNames:
    generated = pl.col("name").str.contains(_GENERATED)
    flags = names.select(
        is_generated=generated,
        is_open=generated & (pl.col("category") == UNKNOWN),
        is_reduction=pl.col("name").str.contains(_REDUCTIONS),
        is_sampler=pl.col("name").str.contains(_SAMPLERS)
        & pl.col("category").is_in(_SAMPLING_FROM)
        & generated.not_(),
        is_splitk=pl.col("category") == "splitk_reduce",
    )
    return _OpenNames(*(flags[column].to_numpy() for column in flags.columns))


@dataclass(frozen=True)
class _Sequence:
    """The kernels in launch order: group and name of each, shape (n,)."""

    group: npt.NDArray[np.int32]
    name: npt.NDArray[np.int32]
    categories: pl.Series
    names: _OpenNames
    generated: Ints
    """Positions of all generated kernels, ascending."""
    last_multiply: Ints
    """Position of the last multiply of each group; -1 if there is none."""

    @classmethod
    def of(cls, work: pl.DataFrame, names: pl.DataFrame, open_names: _OpenNames) -> _Sequence:
        group, name = work["group"].to_numpy(), work["name"].to_numpy()
        is_multiply = names["category"].is_in(_MULTIPLIES).to_numpy()
        at = np.flatnonzero(is_multiply[name])
        groups = int(group.max(initial=-1)) + 1
        last = np.full(groups, -1)
        last[group[at]] = at
        generated = np.flatnonzero(open_names.is_generated[name])
        return cls(group, name, names["category"], open_names, generated, last)

    def neighbour(self, position: Ints, offset: int | Ints) -> npt.NDArray[np.int32]:
        """Name of the kernel that many places on in the same step, or -1."""
        other = position + offset
        inside = (other >= 0) & (other < self.group.size)
        other = np.where(inside, other, position)
        same = inside & (self.group[other] == self.group[position])
        return np.where(same, self.name[other], np.int32(-1))

    def following_generated(self, position: Ints) -> npt.NDArray[np.int32]:
        """Name of the next generated kernel in the same step, or -1."""
        at = np.searchsorted(self.generated, position, side="right")
        there = np.append(self.generated, self.group.size)[at]
        return self.neighbour(position, there - position)

    def category(self, name: str) -> pl.Expr:
        """The category behind a column of names; null where the name is -1."""
        return pl.col(name).replace_strict(
            list(range(self.categories.len())), self.categories, default=None
        )


def _generated(sequence: _Sequence, names: pl.DataFrame, sources: pl.DataFrame) -> _Decisions:
    """Decide generated kernels without operations in their names.

    A run of such kernels is looked at as one, with its decided neighbours on both sides.
    """
    position = np.flatnonzero(sequence.names.is_open[sequence.name])
    surroundings, variant = _distinct(_surroundings(sequence, position))
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
    return _Decisions(position, variant, _variants(decided))


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


def _distinct(rows: pl.DataFrame) -> tuple[pl.DataFrame, Ints]:
    """The distinct rows, and for each row which of them it is."""
    distinct = rows.unique(maintain_order=True)
    numbered = distinct.with_row_index("number")
    number = rows.join(numbered, on=rows.columns, how="left", maintain_order="left")["number"]
    return distinct, number.cast(pl.Int64).to_numpy()


def _variants(table: pl.DataFrame) -> pl.DataFrame:
    """The columns of ``_VARIANT``, null where the table has none."""
    return table.select(
        (pl.col(name) if name in table.columns else pl.lit(None)).cast(dtype).alias(name)
        for name, dtype in _VARIANT.items()
    )


def _category_and_method() -> pl.Expr:
    """The passes for generated kernels, in their order; see the module's docstring."""
    reduction = pl.col("is_reduction")
    ends_in_rope = pl.col("after_category").is_in(_BEFORE_ROPE_ENDS) & pl.col(
        "before_category"
    ).is_in(_MULTIPLIES)

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


def _surroundings(sequence: _Sequence, position: Ints) -> pl.DataFrame:
    """One row per open kernel: its name, the names around its run, and facts on both."""
    group = sequence.group[position]
    follows = (np.diff(position, prepend=-2) == 1) & (np.diff(group, prepend=-1) == 0)
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


def _named_places(sequence: _Sequence, names: pl.DataFrame) -> pl.DataFrame:
    """Where generated pointwise kernels with operations in their names stand.

    Returns:
        ``before_category``, ``after_category`` and, where all such kernels there agree,
        ``place``, their category.
    """
    is_named = names.select(
        pl.col("name").str.contains(_GENERATED)
        & (pl.col("category") != UNKNOWN)
        & pl.col("name").str.contains(_REDUCTIONS).not_()
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


def _sampling(sequence: _Sequence) -> _Decisions:
    position = np.flatnonzero(sequence.names.is_sampler[sequence.name])
    last_multiply = sequence.last_multiply[sequence.group[position]]
    behind = position[(last_multiply >= 0) & (position > last_multiply)]
    old, variant = _distinct(pl.DataFrame({"old": sequence.name[behind]}))
    decided = old.with_columns(category=pl.lit("sampling"), method=pl.lit("context-sampling"))
    return _Decisions(behind, variant, _variants(decided))


def _pairs(sequence: _Sequence) -> _Decisions:
    """Tie split-K reductions to the multiply just before them in the same step."""
    position = np.flatnonzero(sequence.names.is_splitk[sequence.name])
    before = sequence.neighbour(position, -1)
    is_multiply = np.append(sequence.categories.is_in(_MULTIPLIES).to_numpy(), False)
    paired = is_multiply[before]
    position, before = position[paired], before[paired]
    rows, variant = _distinct(pl.DataFrame({"old": sequence.name[position], "pair": before}))
    return _Decisions(position, variant, _variants(rows))


def _renamed(
    placed: Placed, names: pl.DataFrame, passes: Sequence[_Decisions]
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
