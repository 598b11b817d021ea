"""A model's Hugging Face ``config.json``: read, and what it says of the language model."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kernelscope.errors import ConfigError

HINT = "Give the config.json of a Hugging Face model, or the folder that holds it."
_NESTED = ("text_config", "llm_config", "language_config", "thinker_config")
_COUNTS = ("num_hidden_layers", "n_layer", "n_layers", "num_layers")
_TYPES = ("layer_types", "layers_block_type")
_LINEAR = ("linear", "mamba", "conv", "recurrent")
"""What the name of a layer type holds if the layer has no softmax attention."""
_MOST = 1 << 24


@dataclass(frozen=True)
class ModelConfig:
    """What a configuration says of the language model.

    Attributes:
        path: of the file.
        facts: keys of the file; those of a nested part that counts the layers are laid over
            them.
        layers: how many layers there are.
        layer_types: the type of each layer, shape (layers,); empty where the file does not say.
    """

    path: Path
    facts: Mapping[str, Any]
    layers: int
    layer_types: tuple[str, ...]

    def count(self, *names: str) -> int | None:
        """The first of these keys that is a whole number of believable size."""
        return first_count(self.facts, *names)


def read_model_config(path: str | os.PathLike[str]) -> ModelConfig:
    """Read a ``config.json``, or the one in a folder.

    Raises:
        ConfigError: it cannot be read, is no JSON object, or does not count its layers.
    """
    path = Path(path)
    path = path / "config.json" if path.is_dir() else path
    content = read_json_object(path)
    for part in (content, *(content.get(name) for name in _NESTED)):
        if not isinstance(part, dict):
            continue
        types = _layer_types(part)
        layers = first_count(part, *_COUNTS) or len(types)
        if layers:
            known = types if len(types) == layers else ()
            return ModelConfig(path, {**content, **part}, layers, known)
    raise ConfigError(f"{path} does not say how many layers there are.", hint=HINT)


def first_count(part: Mapping[str, Any], *names: str) -> int | None:
    """The first of these keys that is a whole number of believable size: 1 to 16 million."""
    for name in names:
        value = part.get(name)
        if isinstance(value, int) and not isinstance(value, bool) and 0 < value < _MOST:
            return value
    return None


def is_linear(layer_type: str) -> bool:
    """Whether a layer type names a layer without softmax attention."""
    return any(word in layer_type.lower() for word in _LINEAR)


def read_json_object(path: Path) -> dict[str, Any]:
    """Everything that a ``config.json`` holds.

    Raises:
        ConfigError: it cannot be read, or is no JSON object.
    """
    try:
        content = json.loads(path.read_text("utf-8"))
    except OSError as error:
        raise ConfigError(
            f"{path} cannot be read: {error.strerror or error}.", hint=HINT
        ) from error
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"{path} is not JSON: {error}.", hint=HINT) from error
    if not isinstance(content, dict):
        raise ConfigError(f"{path} holds no JSON object.", hint=HINT)
    return content


def _layer_types(part: Mapping[str, Any]) -> tuple[str, ...]:
    types = next((part[name] for name in _TYPES if isinstance(part.get(name), list)), ())
    return tuple(str(name) for name in types)
