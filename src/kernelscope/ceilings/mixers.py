"""The work of what mixes tokens: attention over the cache, its latent form, linear attention."""

from __future__ import annotations

from functools import partial

from kernelscope.ceilings.facts import Facts
from kernelscope.ceilings.formats import PLAIN, formats
from kernelscope.ceilings.quantization import Quantization
from kernelscope.ceilings.work import (
    CONTEXT,
    GENERATION,
    Attention,
    Convolution,
    DeltaRule,
    Multiply,
    Work,
)

_STATE_BITS = {"float32": 32, "float": 32, "bfloat16": 16, "float16": 16}


def softmax_attention(
    facts: Facts, quantization: Quantization, index: int, layer_type: str
) -> tuple[Work, ...]:
    """qkv_proj, attention, o_proj. A gate on the output doubles the query projection."""
    module = partial(_module, quantization, index, "self_attn")
    hidden = facts.need("hidden_size")
    heads = facts.need("num_attention_heads")
    head_dim = facts.get("head_dim") or hidden // heads or facts.need("head_dim")
    mine = facts.share(heads, "attention heads")
    cache = facts.heads_of_cache(facts.get("num_key_value_heads") or heads)
    gated = 2 if facts.flag("attn_output_gate", default=False) else 1
    window = facts.get("sliding_window") if "sliding" in layer_type else None
    return (
        module(
            "qkv_proj",
            n=(mine * gated + 2 * cache) * head_dim,
            k=hidden,
            parts=("q_proj", "k_proj", "v_proj"),
        ),
        Attention(mine, head_dim, head_dim, 2 * cache * head_dim, quantization.kv_bits, window),
        module("o_proj", n=hidden, k=mine * head_dim),
    )


def latent_attention(
    facts: Facts, quantization: Quantization, index: int, layer_type: str
) -> tuple[Work, ...]:
    """Multi-head latent attention as vLLM runs it (DeepSeek-V2, section 2.1, and its appendix).

    Prompts: the latent is expanded by kv_b_proj, then attention with full heads. Generation:
    kv_b_proj is absorbed into two batched multiplies, which vLLM keeps in 16 bits, around
    attention over the latent itself.
    """
    del layer_type
    module = partial(_module, quantization, index, "self_attn")
    hidden, latent = facts.need("hidden_size"), facts.need("kv_lora_rank")
    rope, nope = facts.need("qk_rope_head_dim"), facts.need("qk_nope_head_dim")
    value = facts.need("v_head_dim")
    heads = facts.share(facts.need("num_attention_heads"), "attention heads")
    query = facts.get("q_lora_rank")
    if query:
        down = [
            module(
                "fused_qkv_a_proj",
                n=query + latent + rope,
                k=hidden,
                parts=("q_a_proj", "kv_a_proj_with_mqa"),
            ),
            module("q_b_proj", n=heads * (nope + rope), k=query),
        ]
    else:
        down = [
            module("q_proj", n=heads * (nope + rope), k=hidden),
            module("kv_a_proj_with_mqa", n=latent + rope, k=hidden),
        ]
    absorbed = partial(Multiply, format=formats()[PLAIN], rows=GENERATION, batch=heads)
    bits = quantization.kv_bits
    return (
        *down,
        module("kv_b_proj", n=heads * (nope + value), k=latent, rows=CONTEXT),
        Attention(heads, nope + rope, value, heads * (nope + rope + value), rows=CONTEXT),
        absorbed("self_attn.kv_b_proj (keys, absorbed)", n=latent, k=nope),
        Attention(heads, latent + rope, latent, latent + rope, bits, rows=GENERATION),
        absorbed("self_attn.kv_b_proj (values, absorbed)", n=value, k=latent),
        module("o_proj", n=hidden, k=heads * value),
    )


def linear_attention(
    facts: Facts, quantization: Quantization, index: int, layer_type: str
) -> tuple[Work, ...]:
    """Gated DeltaNet: in_proj_qkvz, in_proj_ba, the convolution, the delta rule, out_proj."""
    del layer_type
    module = partial(_module, quantization, index, "linear_attn")
    hidden = facts.need("hidden_size")
    key_heads = facts.share(facts.need("linear_num_key_heads"), "key heads of linear attention")
    heads = facts.share(facts.need("linear_num_value_heads"), "value heads of linear attention")
    key_dim, value_dim = facts.need("linear_key_head_dim"), facts.need("linear_value_head_dim")
    keys, values = key_heads * key_dim, heads * value_dim
    state_bits = _STATE_BITS.get(str(facts.values.get("mamba_ssm_dtype")), 16)
    return (
        module(
            "in_proj_qkvz", n=2 * keys + 2 * values, k=hidden, parts=("in_proj_qkv", "in_proj_z")
        ),
        module("in_proj_ba", n=2 * heads, k=hidden, parts=("in_proj_b", "in_proj_a")),
        Convolution(2 * keys + values, facts.need("linear_conv_kernel_dim")),
        DeltaRule(key_heads, heads, key_dim, value_dim, state_bits),
        module("out_proj", n=hidden, k=values),
    )


def _module(
    quantization: Quantization,
    index: int,
    block: str,
    name: str,
    *,
    n: int,
    k: int,
    parts: tuple[str, ...] = (),
    rows: str = "tokens",
) -> Multiply:
    """A multiply in the format of its module, or of the modules that are fused in it."""
    names = tuple(f"model.layers.{index}.{block}.{part}" for part in (name, *parts))
    return Multiply(f"{block}.{name}", n, k, quantization.format_of(names), rows)
