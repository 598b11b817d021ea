"""The numbers of a configuration that its structure follows from, asked for by name."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Any

from kernelscope.errors import ConfigError
from kernelscope.model_config import ModelConfig, first_count

_VOCABULARY_PADDING = 64  # vLLM's DEFAULT_VOCAB_PADDING_SIZE


@dataclass(frozen=True)
class Facts:
    """A configuration with its family's defaults, divided among the GPUs of a tensor group.

    Attributes:
        config: of the model.
        values: its keys over the family's defaults.
        tensor_parallel: how many GPUs share each layer.
        is_known_family: whether the structure of this model type is known here.
    """

    config: ModelConfig
    values: Mapping[str, Any]
    tensor_parallel: int
    is_known_family: bool

    @classmethod
    def of(cls, config: ModelConfig, tensor_parallel: int) -> Facts:
        """The facts of a configuration."""
        defaults = _defaults().get(str(config.facts.get("model_type")))
        return cls(
            config, {**(defaults or {}), **config.facts}, tensor_parallel, defaults is not None
        )

    def need(self, *names: str) -> int:
        """The first of these keys that is a whole number above 0.

        Raises:
            ConfigError: there is none.
        """
        value = self.get(*names)
        if value is None:
            raise ConfigError(
                f"{self.config.path} does not state {' or '.join(names)}.",
                hint="Give a config.json that has it; the roofline follows from it.",
            )
        return value

    def get(self, *names: str) -> int | None:
        """The first of these keys that is a whole number above 0, or None."""
        return first_count(self.values, *names)

    def flag(self, name: str, *, default: bool) -> bool:
        """A key that is true or false."""
        value = self.values.get(name)
        return value if isinstance(value, bool) else default

    def share(self, size: int, what: str) -> int:
        """One GPU's part of something that tensor parallelism divides.

        Raises:
            ConfigError: it cannot be divided evenly.
        """
        part, rest = divmod(size, self.tensor_parallel)
        if rest:
            raise ConfigError(
                f"{self.config.path}: {what} ({size:,}) cannot be divided by a tensor parallel "
                f"size of {self.tensor_parallel}.",
                hint="Give the size that the run had with --tensor-parallel.",
            )
        return part

    def heads_of_cache(self, heads: int) -> int:
        """One GPU's key and value heads; fewer heads than GPUs are kept several times."""
        return 1 if heads < self.tensor_parallel else self.share(heads, "key and value heads")

    def vocabulary(self) -> int:
        """One GPU's rows of the output head, padded as vLLM pads them."""
        padded = -(-self.need("vocab_size") // _VOCABULARY_PADDING) * _VOCABULARY_PADDING
        return self.share(padded, "the padded vocabulary")


@cache
def _defaults() -> Mapping[str, Mapping[str, Any]]:
    text = resources.files(__package__).joinpath("families.toml").read_text("utf-8")
    return {
        model_type: family.get("defaults", {})
        for family in tomllib.loads(text)["family"]
        for model_type in family["model_types"]
    }
