"""The kernels of one step in launch order, as categories, and questions about them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from kernelscope.layers.model import Ints

CORES = ("attention", "attention_combine", "linear_attention", "conv")
"""What mixes tokens: once per layer, possibly in several kernels."""
MULTIPLIES = ("gemm", "gemv", "moe_gemm")
EXPERTS = ("moe_gemm",)
ACTIVATION = "activation"
SPLIT_K = "splitk_reduce"
NORM = "norm"
NORMS = (NORM, "communication")
"""What opens a layer; an all-reduce may have the norm fused into it."""
PLAIN_NORMS = (*NORMS, "reduce")
"""The same where a norm is spelled out in elementwise kernels around a mean."""
BREAKS = ("sampling", "embedding", "vision", "spec_decode")
"""What stands between two models, such as the main one and a draft."""


@dataclass(frozen=True, eq=False)
class Line:
    """The categories of a step's kernels in launch order, and a finer symbol for each."""

    categories: tuple[str, ...]
    symbols: tuple[str, ...]

    @cached_property
    def array(self) -> npt.NDArray[np.str_]:
        """The categories, shape (kernels,)."""
        return np.array(self.categories, dtype=np.str_)

    def where(self, wanted: Iterable[str], begin: int = 0, end: int | None = None) -> Ints:
        """Positions of kernels of the wanted categories in [begin, end), ascending."""
        return np.flatnonzero(np.isin(self.array[begin:end], list(wanted))) + begin

    def has(self, wanted: Iterable[str], begin: int, end: int) -> bool:
        """Whether a kernel of the wanted categories stands in [begin, end)."""
        return bool(self.where(wanted, begin, end).size)

    @cached_property
    def multiplies(self) -> Ints:
        """Positions of all multiplies, ascending."""
        return self.where(MULTIPLIES)

    def multiplies_in(self, begin: int, end: int) -> Ints:
        """Positions of the multiplies in [begin, end), ascending."""
        first, last = np.searchsorted(self.multiplies, (begin, end))
        return self.multiplies[first:last]
