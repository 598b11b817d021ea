"""The kernels of all steps in launch order, and what stands around them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import polars as pl

from kernelscope.rules.tables import UNKNOWN

Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]

MULTIPLIES = ("gemm", "gemv")
GENERATED = r"^triton_(?:[a-z]+_)?fused"
REDUCTIONS = r"^triton_(?:red|per|mix)_"

_SAMPLERS = r"(?i)arg_?max|softmax|distribution_|exponential|multinomial|RadixSort|topk|sort_"
_SAMPLING_FROM = ("reduce", "elementwise", "copy", "other", UNKNOWN)


@dataclass(frozen=True)
class OpenNames:
    """Which names (rows of the names frame) each pass looks at."""

    is_generated: Bools
    is_open: Bools
    is_reduction: Bools
    is_sampler: Bools
    is_splitk: Bools

    @classmethod
    def of(cls, names: pl.DataFrame) -> OpenNames:
        """Sort the names by what may be open about them."""
        generated = pl.col("name").str.contains(GENERATED)
        flags = names.select(
            is_generated=generated,
            is_open=generated & (pl.col("category") == UNKNOWN),
            is_reduction=pl.col("name").str.contains(REDUCTIONS),
            is_sampler=pl.col("name").str.contains(_SAMPLERS)
            & pl.col("category").is_in(_SAMPLING_FROM)
            & generated.not_(),
            is_splitk=pl.col("category") == "splitk_reduce",
        )
        return cls(*(flags[column].fill_null(value=False).to_numpy() for column in flags.columns))

    @property
    def any_open(self) -> bool:
        """Whether any pass has something to look at."""
        return bool((self.is_open | self.is_sampler | self.is_splitk).any())


@dataclass(frozen=True)
class LaunchSequence:
    """The kernels in launch order: group and name of each, shape (n,)."""

    group: npt.NDArray[np.int32]
    name: npt.NDArray[np.int32]
    categories: pl.Series
    names: OpenNames
    generated: Ints
    """Positions of all generated kernels, ascending."""
    last_multiply: Ints
    """Position of the last multiply of each group; -1 if there is none."""

    @classmethod
    def of(cls, work: pl.DataFrame, names: pl.DataFrame, open_names: OpenNames) -> LaunchSequence:
        """The sequence of ``work``, which is sorted by group and start."""
        group, name = work["group"].to_numpy(), work["name"].to_numpy()
        is_multiply = names["category"].is_in(MULTIPLIES).to_numpy()
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
