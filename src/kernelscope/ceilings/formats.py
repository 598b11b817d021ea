"""How weights are stored and multiplied."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib import resources

_BITS_PER_BYTE = 8


@dataclass(frozen=True)
class Format:
    """One way to store and multiply weights; the keys of ``formats.toml``."""

    name: str
    bits: int
    activation_bits: int
    compute: str
    note: str = ""
    group: int | None = None
    scale_bits: int = 0
    zero_bits: int = 0

    @property
    def bytes_per_weight(self) -> float:
        """Scales and zero points of groups included."""
        shared = (self.scale_bits + self.zero_bits) / self.group if self.group else 0.0
        return (self.bits + shared) / _BITS_PER_BYTE

    @property
    def bytes_per_activation(self) -> float:
        """Of one element of the other operand."""
        return self.activation_bits / _BITS_PER_BYTE


PLAIN = "bf16"


@cache
def formats() -> Mapping[str, Format]:
    """The known formats by name."""
    text = resources.files(__package__).joinpath("formats.toml").read_text("utf-8")
    return {entry["name"]: Format(**entry) for entry in tomllib.loads(text)["format"]}
