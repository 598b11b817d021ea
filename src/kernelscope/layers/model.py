"""The nouns of layers: how one step folds, and the tables of a whole trace."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import polars as pl

from kernelscope.frames import Schema

REPETITION = "repetition"
NVTX_AT_CAPTURE = "nvtx at graph capture"

BEFORE_LAYERS = "before layers"
BEHIND_LAYERS = "behind layers"
NOT_FOLDED = "not folded"
OUTSIDE = (BEFORE_LAYERS, BEHIND_LAYERS, NOT_FOLDED)
"""Kinds of rows that are no layer: input and embedding; final norm, lm_head and sampling; and
steps whose kernels do not fold as the usual step of their phase does."""

BEFORE, BEHIND, LEFT = -1, -2, -3
"""What stands in place of a layer's number for :data:`OUTSIDE`, in that order."""

Ints = npt.NDArray[np.int64]

LAYERS: Schema = {
    "rank": pl.UInt16(),
    "phase": pl.String(),
    "layer_index": pl.Int32(),
    "layer_kind": pl.String(),
    "layer_name": pl.String(),
    "kernels": pl.Float64(),
    "kernel_ms": pl.Float64(),
    "share": pl.Float64(),
    "source": pl.String(),
}
"""One row per rank, phase and layer, in launch order, and one for each part outside the layers.

``layer_index`` counts from 0 (null outside); ``layer_kind`` says what is in it or which part is
meant; ``layer_name`` is the model's own name for it where NVTX ranges gave one. ``kernels`` and
``kernel_ms`` (milliseconds) are means per complete step and add up to those of the phase;
``share`` is the fraction of the phase's kernel time. ``source`` is :data:`REPETITION` or
:data:`NVTX_AT_CAPTURE`.
"""

KINDS: Schema = {
    "rank": pl.UInt16(),
    "phase": pl.String(),
    "layer_kind": pl.String(),
    "layers": pl.UInt32(),
    "kernels": pl.Float64(),
    "kernel_ms": pl.Float64(),
    "layer_ms_mean": pl.Float64(),
    "layer_ms_min": pl.Float64(),
    "layer_ms_max": pl.Float64(),
    "share": pl.Float64(),
    "categories": pl.String(),
    "source": pl.String(),
}
"""One row per rank, phase and kind of layer, the parts outside the layers included.

``layers`` is how many there are (0 outside); ``kernels`` and ``kernel_ms`` are means per step
over all of them together, ``layer_ms_...`` mean, least and most milliseconds of one layer (null
outside). ``categories`` lists what the usual step has in it, in launch order, each once.
"""

FAMILIES: Schema = {
    "rank": pl.UInt16(),
    "phase": pl.String(),
    "layer_index": pl.Int32(),
    "layer_kind": pl.String(),
    "layer_name": pl.String(),
    "family": pl.String(),
    "kernels": pl.Float64(),
    "kernel_ms": pl.Float64(),
}
"""One row per rank, phase, layer (or part outside the layers) and family of categories.

``kernels`` and ``kernel_ms`` (milliseconds) are means per complete step; over families they add
up to the rows of :data:`LAYERS`.
"""


@dataclass(frozen=True)
class Layer:
    """One layer of a step: its number, what is in it, and the model's own name if known."""

    index: int
    kind: str
    name: str | None = None


@dataclass(frozen=True, eq=False)
class Fold:
    """A step's kernels put into layers.

    Attributes:
        unit: row in ``layers`` of each kernel in launch order, :data:`BEFORE` or
            :data:`BEHIND`; shape (kernels,).
        layers: the layers in launch order.
        source: :data:`REPETITION` or :data:`NVTX_AT_CAPTURE`.
        deviating: layers whose kernels differ from the usual ones of their kind.
    """

    unit: Ints
    layers: tuple[Layer, ...]
    source: str
    deviating: int = 0

    @property
    def kinds(self) -> tuple[str, ...]:
        """The kind of each layer."""
        return tuple(layer.kind for layer in self.layers)


@dataclass(frozen=True)
class Declined:
    """Why a step was not folded: the end of a sentence."""

    reason: str


@dataclass(frozen=True)
class PhaseLayers:
    """What was found for one rank and phase.

    Attributes:
        rank: number of the rank.
        phase: name of the phase.
        source: :data:`REPETITION`, :data:`NVTX_AT_CAPTURE`, or None where nothing was found.
        layers: how many layers a step has; 0 where nothing was found.
        kinds: layers of each kind, most first.
        order: the kinds in launch order, folded: ``"16 x (3 linear_attention + mlp, 1 ...)"``.
        deviating: layers whose kernels differ from the usual ones of their kind.
        steps: complete steps of the phase.
        folded_steps: those that fold as the usual step does; the others' time is in the row
            ``"not folded"``.
        evidence: one sentence: what the layers rest on, or why there are none.
    """

    rank: int
    phase: str
    source: str | None
    layers: int
    kinds: tuple[tuple[str, int], ...]
    order: str
    deviating: int
    steps: int
    folded_steps: int
    evidence: str


@dataclass(frozen=True, eq=False)
class Layers:
    """The layers of a trace.

    Attributes:
        table: one row per layer (:data:`LAYERS`); empty where nothing was found.
        kinds: one row per kind of layer (:data:`KINDS`).
        families: one row per layer and family (:data:`FAMILIES`).
        found: one entry per rank and phase with complete steps, also where there are none.
    """

    table: pl.DataFrame
    kinds: pl.DataFrame
    families: pl.DataFrame
    found: tuple[PhaseLayers, ...]
