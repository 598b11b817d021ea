"""What a layer is called, and whether layers of one name are alike."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby

from kernelscope.layers.line import ACTIVATION, CORES, MULTIPLIES

Kernels = tuple[str, ...]
"""The categories, or symbols, of one layer in launch order."""

_MIXERS = (
    ("attention", ("attention", "attention_combine")),
    ("linear_attention", ("linear_attention",)),
    ("conv", ("conv",)),
)
"""Name -> categories of the kernels that show it; ``conv`` only where nothing else is."""
_MOE = ("moe", "moe_gemm")
_PLAIN = ("norm", "elementwise", "copy", "reduce", "splitk_reduce", "quantize", "other")
_MLP_MULTIPLIES = 3
"""Multiplies behind a core, output projection included, that show a feed-forward block whose
activation is fused into them."""

_ALIKE = 0.6
_MOST_UNLIKE = 0.5


def layer_kind(categories: Kernels) -> str:
    """The name of a layer, from what is in it: ``"linear_attention + mlp"``.

    First what mixes tokens, then the feed-forward block; a layer with neither is named by its
    categories.
    """
    parts = [*_mixers(categories), *_feed_forward(categories)]
    if not parts:
        distinct = dict.fromkeys(categories)
        parts = [name for name in distinct if name not in _PLAIN] or list(distinct)
    return " + ".join(parts)


def _mixers(categories: Kernels) -> list[str]:
    found = [name for name, shown_by in _MIXERS if any(one in shown_by for one in categories)]
    return [name for name in found if name != "conv" or len(found) == 1]


def _feed_forward(categories: Kernels) -> list[str]:
    if any(name in _MOE for name in categories):
        return ["moe"]
    multiplies = [at for at, name in enumerate(categories) if name in MULTIPLIES]
    cores = [at for at, name in enumerate(categories) if name in CORES]
    behind = [at for at in multiplies if not cores or at > cores[-1]]
    activated = bool(behind) and ACTIVATION in categories[behind[0] :]
    fused = bool(cores) and len(behind) >= _MLP_MULTIPLIES
    return ["mlp"] if activated or fused else []


@dataclass(frozen=True)
class Likeness:
    """How alike the layers of each kind are: how many differ, and how many of these by much."""

    deviating: int
    unlike: int

    def is_repetition(self, layers: int) -> bool:
        """Whether so many layers can be called repetitions of their kinds."""
        return self.unlike <= _MOST_UNLIKE * layers


def compare(kinds: Sequence[str], rows: Sequence[Kernels]) -> Likeness:
    """Compare each layer with the usual one of its kind."""
    usual = {
        kind: Counter(
            row for mine, row in zip(kinds, rows, strict=True) if mine == kind
        ).most_common(1)[0][0]
        for kind in dict.fromkeys(kinds)
    }
    pairs = [(row, usual[kind]) for kind, row in zip(kinds, rows, strict=True)]
    deviating = [pair for pair in pairs if pair[0] != pair[1]]
    return Likeness(len(deviating), sum(_overlap(*pair) < _ALIKE for pair in deviating))


def _overlap(one: Kernels, other: Kernels) -> float:
    """Kernels that both have, whatever their order, over those of the longer; 0 to 1."""
    shared = (Counter(one) & Counter(other)).total()
    return shared / max(len(one), len(other), 1)


def order_of(kinds: Sequence[str]) -> str:
    """The kinds in launch order, folded: ``"16 x (3 x a, 1 x b)"``."""
    runs = [(kind, len(list(same))) for kind, same in groupby(kinds)]
    for period in range(1, len(runs) // 2 + 1):
        if len(runs) % period == 0 and runs == runs[:period] * (len(runs) // period):
            return f"{len(runs) // period} x ({_spelled(runs[:period])})"
    return _spelled(runs)


def _spelled(runs: Sequence[tuple[str, int]]) -> str:
    return ", ".join(f"{count} x {kind}" for kind, count in runs)
