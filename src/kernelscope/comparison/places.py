"""What each kernel of a step is for: its layer and its role there, as people name them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from kernelscope.layers.line import ACTIVATION, CORES, EXPERTS, MULTIPLIES, Line
from kernelscope.layers.model import BEFORE, BEFORE_LAYERS, BEHIND, BEHIND_LAYERS, Declined, Fold

_STEP = "step"
_BEHIND_CORE = {2: ("output", "gate_up"), 3: ("output", "gate_up", "down")}
_BEHIND_CORE_APART = ("output", "gate", "up", "down")
_EXPERTS = ("experts gate_up", "experts down")


def name_layers(fold: Fold | Declined, kernels: int) -> tuple[str, ...]:
    """The kind of layer that each kernel is in, or the part outside of the layers."""
    if isinstance(fold, Declined):
        return (_STEP,) * kernels
    kinds = dict(enumerate(fold.kinds)) | {BEFORE: BEFORE_LAYERS, BEHIND: BEHIND_LAYERS}
    return tuple(kinds[unit] for unit in fold.unit.tolist())


def name_roles(line: Line, fold: Fold | Declined) -> tuple[str, ...]:
    """The role of each kernel: ``"gate_up gemm"`` for a multiply, else its category."""
    roles = list(line.categories)
    if isinstance(fold, Declined):
        return tuple(roles)
    for unit in range(len(fold.layers)):
        _name_multiplies(line.categories, np.flatnonzero(fold.unit == unit).tolist(), roles)
    last = [at for at in line.multiplies.tolist() if fold.unit[at] == BEHIND]
    if len(last) == 1:
        roles[last[0]] = f"lm_head {roles[last[0]]}"
    return tuple(roles)


def _name_multiplies(categories: Sequence[str], positions: Sequence[int], roles: list[str]) -> None:
    cores = [at for at in positions if categories[at] in CORES]
    multiplies = [at for at in positions if categories[at] in MULTIPLIES]
    if not cores:
        return
    experts = [at for at in multiplies if categories[at] in EXPERTS]
    ahead = [at for at in multiplies if at < cores[0]]
    behind = [at for at in multiplies if at > cores[-1] and at not in experts]
    named = dict(zip(ahead, _ahead(len(ahead)), strict=True))
    if len(experts) == len(_EXPERTS):
        named |= dict(zip(experts, _EXPERTS, strict=True))
        named |= dict(zip(behind, ("output", "router"), strict=False))
    else:
        named |= dict(zip(behind, _behind(categories, positions, behind), strict=False))
    for at, name in named.items():
        roles[at] = f"{name} {categories[at]}"


def _ahead(count: int) -> Sequence[str]:
    """Projections before what mixes tokens."""
    return ("input",) if count == 1 else [f"input {number}" for number in range(1, count + 1)]


def _behind(
    categories: Sequence[str], positions: Sequence[int], behind: Sequence[int]
) -> Sequence[str]:
    """Output projection and feed-forward block; named only where the activation agrees."""
    if len(behind) == len(_BEHIND_CORE_APART):
        return _BEHIND_CORE_APART
    names = _BEHIND_CORE.get(len(behind), ("output",))
    activations = [
        at for at in positions if categories[at] == ACTIVATION and behind and at > behind[0]
    ]
    if activations and "down" in names and not behind[1] < activations[-1] < behind[2]:
        return ("output",)
    return names
