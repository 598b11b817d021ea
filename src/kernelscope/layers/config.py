"""A model's configuration against the layers that were found."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass

from kernelscope.layers.model import NVTX_AT_CAPTURE, Layers, PhaseLayers
from kernelscope.model_config import is_linear, read_model_config

_INTERVAL = "full_attention_interval"


@dataclass(frozen=True)
class ConfigCheck:
    """Whether a configuration agrees with the layers found, and that in one sentence."""

    agrees: bool
    sentence: str


@dataclass(frozen=True)
class _Config:
    layers: int
    linear: int | None
    """How many of them have no softmax attention; None where the file does not say."""

    def spelled(self) -> str:
        if self.linear is None:
            return f"{self.layers} layers"
        return (
            f"{self.layers} layers, {self.linear} with linear attention and "
            f"{self.layers - self.linear} with full attention"
        )


def check_config(layers: Layers, path: str | os.PathLike[str]) -> ConfigCheck:
    """Compare the layers found with a Hugging Face ``config.json``.

    Ranks that hold different layers (pipeline stages) are added up where none holds them all.

    Args:
        layers: what :func:`kernelscope.layers.find_layers` found.
        path: the file, or the folder that holds it; the counts may stand in a nested
            ``text_config``.

    Raises:
        ConfigError: the file cannot be read, is no JSON object, or counts no layers.
    """
    config = _read(path)
    found = [phase for phase in layers.found if phase.source is not None]
    if not found:
        return ConfigCheck(
            agrees=False,
            sentence=f"The configuration has {config.spelled()}; none were found in the trace.",
        )
    wrong = [phase for phase in found if not _agrees(config, phase)]
    if not wrong or _stages_agree(config, found):
        return ConfigCheck(agrees=True, sentence=f"The configuration agrees: {config.spelled()}.")
    there = "; ".join(dict.fromkeys(_spelled(phase) for phase in wrong))
    return ConfigCheck(
        agrees=False,
        sentence=f"The configuration has {config.spelled()}, but the trace shows {there}.",
    )


def _agrees(config: _Config, phase: PhaseLayers) -> bool:
    if phase.layers != config.layers:
        return False
    by_parts = phase.source == NVTX_AT_CAPTURE
    return config.linear is None or by_parts or _linear(phase) == config.linear


def _linear(phase: PhaseLayers) -> int:
    return sum(count for kind, count in phase.kinds if not kind.startswith("attention"))


def _stages_agree(config: _Config, found: Sequence[PhaseLayers]) -> bool:
    """Whether several ranks together hold the layers, in every phase that was found."""
    by_phase = [
        [stage for stage in found if stage.phase == phase]
        for phase in dict.fromkeys(one.phase for one in found)
    ]
    return all(
        len(stages) > 1
        and sum(stage.layers for stage in stages) == config.layers
        and config.linear in (None, sum(_linear(stage) for stage in stages))
        for stages in by_phase
    )


def _spelled(phase: PhaseLayers) -> str:
    return f"{phase.layers} in {phase.phase} steps ({phase.order})"


def _read(path: str | os.PathLike[str]) -> _Config:
    config = read_model_config(path)
    if config.layer_types:
        return _Config(config.layers, sum(is_linear(name) for name in config.layer_types))
    interval = config.count(_INTERVAL)
    return _Config(config.layers, config.layers - config.layers // interval if interval else None)
