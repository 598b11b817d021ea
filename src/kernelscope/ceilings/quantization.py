"""Which format each module's weights have, from a model's quantization configuration."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import polars as pl

from kernelscope.ceilings.formats import PLAIN, Format, formats
from kernelscope.errors import ConfigError
from kernelscope.model_config import ModelConfig, first_count

LM_HEAD = "lm_head"
_IGNORED = ("ignore", "modules_to_not_convert", "ignored_layers", "exclude_modules")
_ALL = "Linear"
_REGEX = "re:"
_LAYERS = "layers."


@dataclass(frozen=True)
class Quantization:
    """Formats by module.

    Attributes:
        groups: (pattern of module names, format), the first that matches wins.
        ignored: pattern of the modules that are not quantized; None for none.
        lm_head: whether the output head is quantized as well.
        kv_bits: of an element of the KV cache; 16 unless the configuration says less.
    """

    groups: tuple[tuple[str, Format], ...] = ()
    ignored: str | None = None
    lm_head: bool = False
    kv_bits: int = 16

    @property
    def name(self) -> str:
        """The formats, as a reader should see them."""
        return " and ".join(dict.fromkeys(one.name for _, one in self.groups)) or PLAIN

    def format_of(self, modules: Sequence[str]) -> Format:
        """The format of a multiply that fuses these modules."""
        plain = formats()[PLAIN]
        if modules == (LM_HEAD,) and not self.lm_head:
            return plain
        if self.ignored is not None and _matches(self.ignored, modules):
            return plain
        return next((one for pattern, one in self.groups if _matches(pattern, modules)), plain)


def read_quantization(config: ModelConfig, name: str | None = None) -> Quantization:
    """What a configuration says of its weights' formats.

    Args:
        config: of the model; its key ``quantization_config`` is read.
        name: a format of ``formats.toml`` in place of that, as vLLM's ``--quantization`` makes
            it while loading: for every module but the output head.

    Raises:
        ConfigError: the configuration's method is not known, or cannot be understood.
    """
    if name is not None:
        return Quantization((("", formats()[name]),))
    stated = config.facts.get("quantization_config") or config.facts.get("compression_config")
    if stated is None:
        return Quantization()
    if not isinstance(stated, dict):
        raise _not_understood(config, stated)
    stated = {**stated, **_part(stated, "quantization")}
    method = str(stated.get("quant_method", "modelopt" if "quant_algo" in stated else ""))
    read = _METHODS.get(method.replace("_", "-").removesuffix("-marlin"))
    groups = read(stated) if read else None
    if not groups:
        raise _not_understood(config, method)
    ignored = [str(one) for key in _IGNORED for one in _list(stated.get(key))]
    return Quantization(
        groups,
        _pattern(ignored) if ignored else None,
        stated.get("lm_head") is True,
        8 if _has_fp8_cache(stated) else 16,
    )


def _not_understood(config: ModelConfig, what: object) -> ConfigError:
    return ConfigError(
        f"{config.path} has a quantization that is not known here: {what!r}.",
        hint=f"Name the format with --quantization: {', '.join(formats())}.",
    )


Groups = tuple[tuple[str, Format], ...]


def _fp8(stated: Mapping[str, Any]) -> Groups | None:
    block = [_whole(one) for one in _list(stated.get("weight_block_size"))]
    if not block:
        return (("", formats()["fp8"]),)
    return (("", replace(formats()["fp8_block"], group=math.prod(one or 1 for one in block))),)


def _integers(stated: Mapping[str, Any]) -> Groups | None:
    """GPTQ and AWQ: integers of few bits, multiplied in 16."""
    has_zeros = stated.get("zero_point") is True
    bits = _whole(stated.get("bits") or stated.get("w_bit"))
    return _grouped(bits, _whole(stated.get("group_size") or stated.get("q_group_size")), has_zeros)


def _grouped(bits: int | None, group: int | None, has_zeros: bool) -> Groups | None:  # noqa: FBT001
    if bits == 8:  # noqa: PLR2004
        found = replace(formats()["int8_weight_only"], group=group, scale_bits=16)
    elif bits == 4:  # noqa: PLR2004
        found = replace(formats()["awq" if has_zeros else "int4"], group=group)
    else:
        return None
    return (("", found),)


def _compressed_tensors(stated: Mapping[str, Any]) -> Groups | None:
    found = [_compressed(part) for part in _part(stated, "config_groups").values()]
    return tuple(one for one in found if one) if all(found) else None


def _compressed(part: object) -> tuple[str, Format] | None:
    if not isinstance(part, dict):
        return None
    weights, activations = _part(part, "weights"), _part(part, "input_activations")
    found = _weights(weights, w_only=not activations)
    targets = [str(one) for one in _list(part.get("targets"))]
    return (_pattern(targets), found) if found else None


def _weights(weights: Mapping[str, Any], *, w_only: bool) -> Format | None:
    """The format of compressed-tensors' ``weights``: bits, type and strategy."""
    kind, bits = str(weights.get("type", "int")), _whole(weights.get("num_bits"))
    group = _whole(weights.get("group_size"))
    suffix = "_weight_only" if w_only else ""
    if (kind, bits) == ("float", 4):
        base = formats()["nvfp4" + suffix]
        return base if group in (None, base.group) else formats()["mxfp4"] if w_only else None
    if (kind, bits) == ("float", 8):
        block = [_whole(one) or 1 for one in _list(weights.get("block_structure"))]
        return (
            replace(formats()["fp8_block"], group=math.prod(block))
            if block
            else formats()["fp8" + suffix]
        )
    if kind == "int" and (bits == 4 or (bits == 8 and w_only)):  # noqa: PLR2004
        found = _grouped(bits, group, weights.get("symmetric") is False)
        return found[0][1] if found else None
    return formats()["int8"] if (kind, bits) == ("int", 8) else None


def _modelopt(stated: Mapping[str, Any]) -> Groups | None:
    algorithm = str(stated.get("quant_algo", "")).upper()
    if algorithm == "" and "config_groups" in stated:
        return _compressed_tensors(stated)
    name = {"FP8": "fp8", "NVFP4": "nvfp4", "W4A16_AWQ": "int4", "INT8_SQ": "int8"}.get(algorithm)
    return (("", formats()[name]),) if name else None


_METHODS: Mapping[str, Callable[[Mapping[str, Any]], Groups | None]] = {
    "fp8": _fp8,
    "gptq": _integers,
    "awq": _integers,
    "compressed-tensors": _compressed_tensors,
    "modelopt": _modelopt,
    "modelopt-fp4": _modelopt,
    "mxfp4": lambda _: (("", formats()["mxfp4"]),),
}
"""What ``quant_method`` may be, without "_marlin", and how it is read."""


def _has_fp8_cache(stated: Mapping[str, Any]) -> bool:
    scheme = _part(stated, "kv_cache_scheme")
    algorithm = str(stated.get("kv_cache_quant_algo") or "")
    return _whole(scheme.get("num_bits")) == 8 or algorithm.upper() == "FP8"  # noqa: PLR2004


def _pattern(entries: Iterable[str]) -> str:
    """One regular expression for a list of modules, patterns, and names with a star."""
    return "|".join(_entry(one) for one in entries)


def _entry(entry: str) -> str:
    if entry == _ALL:
        return ".*"
    if entry.startswith(_REGEX):
        return f"^(?:{entry.removeprefix(_REGEX)})"
    if _LAYERS in entry:
        entry = entry[entry.index(_LAYERS) :]
    return rf"(?:^|\.){re.escape(entry).replace(re.escape('*'), '.*')}(?:\.|$)"


def _matches(pattern: str, modules: Sequence[str]) -> bool:
    """Whether one of the modules is meant; by polars, whose regular expressions are linear."""
    try:
        return bool(pl.Series(modules, dtype=pl.String).str.contains(pattern).any())
    except pl.exceptions.ComputeError as error:
        raise ConfigError(
            "A pattern of the quantization configuration is no regular expression: "
            f"{' '.join(str(error).split())}"
        ) from error


def _part(facts: Mapping[str, Any], name: str) -> dict[str, Any]:
    value = facts.get(name)
    return value if isinstance(value, dict) else {}


def _list(value: object) -> list[Any]:
    return value if isinstance(value, list) else []


def _whole(value: object) -> int | None:
    return first_count({"": value}, "")
