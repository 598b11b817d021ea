"""The work of every layer of a model, in launch order, from its configuration.

Projections are fused as vLLM fuses them, and divided by tensor parallelism as vLLM does:
those into heads or the intermediate size by columns, those out of them by rows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from kernelscope.ceilings.facts import Facts
from kernelscope.ceilings.feed_forward import feed_forward
from kernelscope.ceilings.mixers import latent_attention, linear_attention, softmax_attention
from kernelscope.ceilings.quantization import LM_HEAD, Quantization
from kernelscope.ceilings.work import CONTEXT, GENERATION, Attention, Multiply, Work
from kernelscope.errors import ConfigError
from kernelscope.model_config import is_linear
from kernelscope.steps.labels import DECODE, PREFILL

ATTENTION, LINEAR_ATTENTION = "attention", "linear_attention"
_MOST_LAYERS = 1000
_LEFT_OUT = {PREFILL: GENERATION, DECODE: CONTEXT}
"""Phase -> whose work it does not have."""


@dataclass(frozen=True)
class Layer:
    """One layer: what mixes its tokens, and its work in launch order."""

    mixer: str
    works: tuple[Work, ...]


@dataclass(frozen=True)
class Architecture:
    """What one GPU of a tensor group has to do in a step.

    Attributes:
        layers: in order.
        head: the work behind the layers.
    """

    layers: tuple[Layer, ...]
    head: tuple[Work, ...]

    @property
    def weights(self) -> int:
        """Weights of all multiplies, every expert included.

        A module that prompts and generation multiply in different ways (MLA's) counts once.
        """
        works = [work for layer in self.layers for work in layer.works] + list(self.head)
        return sum(
            work.weights for work in works if isinstance(work, Multiply) and work.rows != CONTEXT
        )

    def only(self, phase: str) -> Architecture:
        """Without the work that a phase does not have."""
        left_out = _LEFT_OUT.get(phase)
        layers = tuple(
            Layer(layer.mixer, tuple(work for work in layer.works if not _is_of(left_out, work)))
            for layer in self.layers
        )
        return Architecture(layers, self.head)


def _is_of(side: str | None, work: Work) -> bool:
    """Whether a work is that of prompts, or of generating requests, alone."""
    return isinstance(work, Multiply | Attention) and work.rows == side


def build_architecture(facts: Facts, quantization: Quantization) -> Architecture:
    """The work that follows from a configuration.

    Raises:
        ConfigError: it does not state what is needed, or has layers that are not known here.
    """
    layers = tuple(_layers(facts, quantization))
    head = Multiply(
        LM_HEAD,
        n=facts.vocabulary(),
        k=facts.need("hidden_size"),
        format=quantization.format_of((LM_HEAD,)),
        rows="sampled",
    )
    return Architecture(layers, (head,))


def _layers(facts: Facts, quantization: Quantization) -> Iterator[Layer]:
    for index, layer_type in enumerate(_types(facts)):
        mixer = LINEAR_ATTENTION if is_linear(layer_type) else ATTENTION
        mix = _mixer(facts, layer_type)
        works = (
            *mix(facts, quantization, index, layer_type),
            *feed_forward(facts, quantization, index),
        )
        yield Layer(mixer, works)


_Mixer = Callable[[Facts, Quantization, int, str], tuple[Work, ...]]


def _mixer(facts: Facts, layer_type: str) -> _Mixer:
    if is_linear(layer_type):
        if facts.get("linear_num_value_heads") is None:
            raise ConfigError(
                f"{facts.config.path} has layers of type {layer_type!r}, whose work is not known "
                "here; known are softmax attention, MLA and Gated DeltaNet.",
            )
        return linear_attention
    return latent_attention if facts.get("kv_lora_rank") else softmax_attention


def _types(facts: Facts) -> tuple[str, ...]:
    """The type of each layer; every n-th has full attention where only an interval is given."""
    config = facts.config
    if config.layers > _MOST_LAYERS:
        raise ConfigError(f"{config.path} states {config.layers:,} layers, which cannot be.")
    if config.layer_types:
        return config.layer_types
    interval = facts.get("full_attention_interval")
    if interval is None or facts.get("linear_num_value_heads") is None:
        return ("full_attention",) * config.layers
    return tuple(
        "linear_attention" if (index + 1) % interval else "full_attention"
        for index in range(config.layers)
    )
