"""Layers of a model: a step's kernels folded into the structure that repeats in them."""

from kernelscope.layers.config import ConfigCheck, check_config
from kernelscope.layers.finding import find_layer_spans, find_layers
from kernelscope.layers.model import (
    BEFORE_LAYERS,
    BEHIND_LAYERS,
    KINDS,
    LAYERS,
    NOT_FOLDED,
    NVTX_AT_CAPTURE,
    REPETITION,
    Layers,
    PhaseLayers,
)

__all__ = [
    "BEFORE_LAYERS",
    "BEHIND_LAYERS",
    "KINDS",
    "LAYERS",
    "NOT_FOLDED",
    "NVTX_AT_CAPTURE",
    "REPETITION",
    "ConfigCheck",
    "Layers",
    "PhaseLayers",
    "check_config",
    "find_layer_spans",
    "find_layers",
]
