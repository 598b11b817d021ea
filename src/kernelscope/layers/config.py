"""A model's configuration against the layers that were found."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kernelscope.errors import ConfigError
from kernelscope.layers.model import NVTX_AT_CAPTURE, Layers, PhaseLayers

_NESTED = ("text_config", "llm_config", "language_config", "thinker_config")
_COUNTS = ("num_hidden_layers", "n_layer", "n_layers", "num_layers")
_TYPES = ("layer_types", "layers_block_type")
_INTERVAL = "full_attention_interval"
_LINEAR = ("linear", "mamba", "conv", "recurrent")
"""What the name of a layer type holds if the layer has no softmax attention."""


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
        path: the file; the counts may stand in a nested ``text_config``.

    Raises:
        ConfigError: the file cannot be read, is no JSON object, or counts no layers.
    """
    config = _read(Path(path))
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


def _read(path: Path) -> _Config:
    try:
        content = json.loads(path.read_text("utf-8"))
    except OSError as error:
        raise ConfigError(f"{path} cannot be read: {error.strerror or error}.") from error
    except ValueError as error:
        raise ConfigError(f"{path} is not JSON: {error}.") from error
    hint = "Give the config.json of a Hugging Face model."
    if not isinstance(content, dict):
        raise ConfigError(f"{path} holds no JSON object.", hint=hint)
    for part in (content, *(content.get(name) for name in _NESTED)):
        config = _counted(part) if isinstance(part, dict) else None
        if config:
            return config
    raise ConfigError(f"{path} does not say how many layers there are.", hint=hint)


def _counted(part: Mapping[str, Any]) -> _Config | None:
    types = next((part[name] for name in _TYPES if isinstance(part.get(name), list)), None)
    layers = _count(part, *_COUNTS) or (len(types) if types else None)
    if layers is None:
        return None
    if types and len(types) == layers:
        return _Config(layers, sum(_is_linear(str(name)) for name in types))
    interval = _count(part, _INTERVAL)
    return _Config(layers, layers - layers // interval if interval else None)


def _count(part: Mapping[str, Any], *names: str) -> int | None:
    """The first of these that is a positive whole number."""
    for name in names:
        value = part.get(name)
        if isinstance(value, int) and not isinstance(value, bool) and value > 0:
            return value
    return None


def _is_linear(name: str) -> bool:
    return any(word in name.lower() for word in _LINEAR)
