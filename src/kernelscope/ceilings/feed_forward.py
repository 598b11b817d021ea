"""The work of feed-forward blocks, dense or with experts."""

from __future__ import annotations

from collections.abc import Iterator

from kernelscope.ceilings.facts import Facts
from kernelscope.ceilings.formats import PLAIN, formats
from kernelscope.ceilings.quantization import Quantization
from kernelscope.ceilings.work import Experts, Multiply
from kernelscope.errors import ConfigError

_EXPERTS = ("num_experts", "num_local_experts", "n_routed_experts")
SHARED = "mlp.shared_experts"
_CHOSEN = ("num_experts_per_tok", "experts_per_token", "moe_topk")


def feed_forward(facts: Facts, quantization: Quantization, index: int) -> tuple[Multiply, ...]:
    """The multiplies of one layer's feed-forward block, in launch order.

    Raises:
        ConfigError: the configuration does not state what is needed.
    """
    block = _Block(facts, quantization, index)
    if has_experts(facts, index):
        return tuple(block.experts())
    return tuple(block.dense("mlp", facts.need("intermediate_size", "ffn_dim")))


def has_experts(facts: Facts, index: int) -> bool:
    """Whether that layer has experts; the keys are those of DeepSeek's and Qwen's models."""
    if (facts.get(*_EXPERTS) or 0) <= 1:
        return False
    dense = facts.values.get("mlp_only_layers")
    if isinstance(dense, list) and index in dense:
        return False
    if index < (facts.get("first_k_dense_replace") or 0):
        return False
    frequency = facts.get("moe_layer_freq") or 1
    step = facts.get("decoder_sparse_step") or 1
    return index % frequency == 0 and (index + 1) % step == 0


class _Block:
    def __init__(self, facts: Facts, quantization: Quantization, index: int) -> None:
        self.facts, self.quantization, self.index = facts, quantization, index
        self.hidden = facts.need("hidden_size")

    def dense(self, block: str, width: int) -> Iterator[Multiply]:
        """gate_up_proj and down_proj; up_proj alone where there is no gate."""
        mine = self.facts.share(width, "the intermediate size")
        if self.facts.flag("gated_mlp", default=True):
            parts = ("gate_proj", "up_proj")
            yield self.module(f"{block}.gate_up_proj", 2 * mine, self.hidden, *parts)
        else:
            yield self.module(f"{block}.up_proj", mine, self.hidden)
        yield self.module(f"{block}.down_proj", self.hidden, mine)

    def experts(self) -> Iterator[Multiply]:
        """Router, shared experts, then the grouped multiplies of the chosen experts.

        The router and the gate of shared experts are whole on every GPU; the experts are
        divided by their intermediate size, as tensor parallelism does.
        """
        facts = self.facts
        experts = Experts(facts.need(*_EXPERTS), facts.need(*_CHOSEN))
        if experts.chosen > experts.count:
            raise ConfigError(
                f"{facts.config.path} chooses {experts.chosen} of {experts.count} experts for "
                "each token, which cannot be."
            )
        width = facts.need("moe_intermediate_size", "intermediate_size")
        yield self.router(experts)
        shared = facts.get("shared_expert_intermediate_size", "shared_intermediate_size")
        shared = shared or (facts.get("n_shared_experts") or 0) * width
        if shared:
            yield from self.dense(SHARED, shared)
            if facts.flag("shared_gate", default=False):
                yield Multiply("mlp.shared_expert_gate", 1, self.hidden, formats()[PLAIN])
        mine = facts.share(width, "the intermediate size of the experts")
        for name, n, k in (("w13", 2 * mine, self.hidden), ("w2", self.hidden, mine)):
            yield self.module(f"mlp.experts.{name}", n, k, "0.gate_proj", experts=experts)

    def router(self, experts: Experts) -> Multiply:
        """The choice of experts; few families quantize it."""
        if self.facts.flag("quantized_router", default=False):
            return self.module("mlp.gate", experts.count, self.hidden)
        return Multiply("mlp.gate", experts.count, self.hidden, formats()[PLAIN])

    def module(
        self, name: str, n: int, k: int, *parts: str, experts: Experts | None = None
    ) -> Multiply:
        """A multiply in the format of its module, or of the modules that are fused in it."""
        block = name.rpartition(".")[0]
        names = (name, *(f"{block}.{part}" for part in parts))
        modules = tuple(f"model.layers.{self.index}.{one}" for one in names)
        return Multiply(name, n, k, self.quantization.format_of(modules), experts=experts)
