"""The work that follows from a configuration, against sums written out by hand."""

import json
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kernelscope.ceilings.architecture import build_architecture
from kernelscope.ceilings.facts import Facts
from kernelscope.ceilings.formats import formats
from kernelscope.ceilings.quantization import read_quantization
from kernelscope.ceilings.work import Attention, Convolution, DeltaRule, Experts, Multiply
from kernelscope.ceilings.workload import Workload
from kernelscope.errors import ConfigError
from kernelscope.model_config import read_model_config

CONFIGS = Path(__file__).parent.parent / "fixtures" / "configs"
LLAMA = {
    "model_type": "llama", "hidden_size": 4096, "intermediate_size": 14336,
    "num_hidden_layers": 32, "num_attention_heads": 32, "num_key_value_heads": 8,
    "vocab_size": 128256,
}  # fmt: skip


def architecture(config, tensor_parallel=1, quantization=None):
    """The work of a configuration file, or of keys of one."""
    config = read_model_config(config)
    facts = Facts.of(config, tensor_parallel)
    return build_architecture(facts, read_quantization(config, quantization))


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    """Writes a configuration of these keys and gives its work."""
    folder = tmp_path_factory.mktemp("configs")

    def write(tensor_parallel=1, quantization=None, **keys):
        path = folder / "config.json"
        path.write_text(json.dumps(keys))
        return architecture(folder, tensor_parallel, quantization)

    return write


def workload(context_len=None, **columns):
    """The steps of these labels; columns not given are 0, key counts not known."""
    counts = {
        f"{side}_{what}": columns.get(f"{side}_{what}", [0])
        for side in ("context", "generation")
        for what in ("requests", "tokens")
    }
    keys = {
        f"{side}_kv_tokens": columns.get(f"{side}_kv_tokens") for side in ("context", "generation")
    }
    steps = max(len(values) for values in counts.values())
    frame = pl.DataFrame({name: (values * steps)[:steps] for name, values in counts.items()})
    frame = frame.with_columns(
        pl.Series(name, values or [None] * steps, pl.Int64) for name, values in keys.items()
    )
    return Workload.of(frame, context_len)


def decode(requests, context_len=512):
    return workload(context_len, generation_requests=[requests], generation_tokens=[requests])


def prefill(tokens):
    return workload(context_requests=[1], context_tokens=[tokens])


def shapes(layer):
    return {work.name: (work.n, work.k) for work in layer.works if isinstance(work, Multiply)}


def test_the_projections_of_a_dense_model_with_grouped_queries():
    # Llama 3 8B, config.json: hidden 4096, 32 query and 8 key heads of 128, intermediate 14336.
    found = architecture(CONFIGS / "llama-8b.json")
    assert len(found.layers) == 32
    assert set(map(str, (shapes(layer) for layer in found.layers))) == {
        str(
            {
                "self_attn.qkv_proj": ((32 + 2 * 8) * 128, 4096),
                "self_attn.o_proj": (4096, 32 * 128),
                "mlp.gate_up_proj": (2 * 14336, 4096),
                "mlp.down_proj": (4096, 14336),
            }
        )
    }
    # 8.03 billion parameters, less 0.53 billion in the embedding and 0.3 million in norms.
    assert found.weights == 32 * 218_103_808 + 128_256 * 4096 == 7_504_658_432


def test_the_weights_of_qwen35_27b_are_those_of_every_projection_listed():
    # Qwen3.5-27B, config.json (text_config): hidden 5120; 24 query heads, doubled by the gate of
    # the output, and 4 key heads of 256; linear attention with 16 key heads of 128 and 48 value
    # heads of 128; intermediate 17408; vocabulary 248320; 64 layers, every fourth with full
    # attention.
    in_proj_qkvz = 5120 * (16 * 128 + 16 * 128 + 48 * 128 + 48 * 128)  # q, k, v, z
    in_proj_ba = 5120 * (48 + 48)
    out_proj = 48 * 128 * 5120
    qkv_proj = 5120 * (24 * 256 + 24 * 256 + 4 * 256 + 4 * 256)  # q, gate, k, v
    o_proj = 24 * 256 * 5120
    gate_up_proj, down_proj = 5120 * 2 * 17408, 17408 * 5120
    lm_head = 248320 * 5120
    by_hand = (
        48 * (in_proj_qkvz + in_proj_ba + out_proj)
        + 16 * (qkv_proj + o_proj)
        + 64 * (gate_up_proj + down_proj)
        + lm_head
    )
    assert by_hand == 25_621_954_560
    found = architecture(CONFIGS / "qwen35-27b.json")
    assert found.weights == by_hand
    assert [layer.mixer for layer in found.layers[:4]] == ["linear_attention"] * 3 + ["attention"]
    assert [work.name for work in found.layers[0].works] == [
        "linear_attn.in_proj_qkvz",
        "linear_attn.in_proj_ba",
        "causal convolution",
        "gated delta rule",
        "linear_attn.out_proj",
        "mlp.gate_up_proj",
        "mlp.down_proj",
    ]


def test_the_work_of_a_mixture_of_experts():
    # Qwen3-30B-A3B, config.json: hidden 2048, 32 query and 4 key heads of 128, 128 experts of
    # intermediate size 768, 8 per token.
    found = architecture(CONFIGS / "qwen3-30b-a3b.json", quantization="fp8")
    assert shapes(found.layers[0]) == {
        "self_attn.qkv_proj": ((32 + 2 * 4) * 128, 2048),
        "self_attn.o_proj": (2048, 32 * 128),
        "mlp.gate": (128, 2048),
        "mlp.experts.w13": (2 * 768, 2048),
        "mlp.experts.w2": (2048, 768),
    }
    expert = 3 * 768 * 2048
    attention = 2048 * 40 * 128 + 2048 * 32 * 128
    assert found.weights == 48 * (attention + 128 * 2048 + 128 * expert) + 151_936 * 2048
    # One token reads 8 experts of one byte per weight; many tokens read all of them.
    w13 = next(work for work in found.layers[0].works if work.name == "mlp.experts.w13")
    assert w13.weight_bytes(decode(1)) == pytest.approx(8 * 2 * 768 * 2048)
    assert w13.weight_bytes(prefill(4096)) == pytest.approx(128 * 2 * 768 * 2048)
    assert w13.flops(decode(3)) == 2 * 3 * 8 * 2 * 768 * 2048
    assert found.head[0].format.name == "bf16"


def test_distinct_experts_are_counted_as_uniform_routing_touches_them():
    # By hand: one token touches k; of two, the second finds (1 - k/E) of its k untouched.
    experts = Experts(128, 8)
    assert experts.touched(np.array([0.0, 1.0, 2.0])) == pytest.approx([0, 8, 8 + 8 * 120 / 128])
    assert experts.touched(np.array([1e6])) == pytest.approx([128])


def test_the_work_of_latent_attention():
    # DeepSeek-V3, config.json, and its report (arXiv 2412.19437, section 4.2): 671 billion
    # parameters, of which the embedding has 129280 x 7168.
    found = architecture(CONFIGS / "deepseek-v3.json")
    attention = (
        7168 * (1536 + 512 + 64)  # fused_qkv_a_proj
        + 1536 * 128 * (128 + 64)  # q_b_proj
        + 512 * 128 * (128 + 128)  # kv_b_proj
        + 128 * 128 * 7168  # o_proj
    )
    dense, expert, gate = 3 * 7168 * 18432, 3 * 7168 * 2048, 7168 * 256
    head = 129280 * 7168
    by_hand = 61 * attention + 3 * dense + 58 * (257 * expert + gate) + head
    assert found.weights == by_hand == 670_098_718_720
    assert round((by_hand + head) / 1e9) == 671


def test_routers_stay_in_16_bits_but_for_those_that_vllm_quantizes():
    deepseek = architecture(CONFIGS / "deepseek-v3.json").layers[3].works
    qwen = architecture(CONFIGS / "qwen3-30b-a3b.json", quantization="fp8").layers[0].works
    formats_of = [
        next(work.format.name for work in works if work.name == "mlp.gate")
        for works in (deepseek, qwen)
    ]
    assert formats_of == ["bf16", "fp8"]


def test_prompts_and_generation_use_latent_attention_in_two_ways():
    found = architecture(CONFIGS / "deepseek-v3.json")
    expanded, absorbed = (found.only(phase).layers[0] for phase in ("prefill", "decode"))
    assert "self_attn.kv_b_proj" in shapes(expanded)
    assert "self_attn.kv_b_proj" not in shapes(absorbed)
    batched = [work for work in absorbed.works if getattr(work, "batch", 1) == 128]
    assert [(work.n, work.k, work.format.name) for work in batched] == [
        (512, 128, "bf16"),
        (128, 512, "bf16"),
    ]
    (attention,) = [work for work in absorbed.works if isinstance(work, Attention)]
    # A token of cache is the latent and the rotary part: 576 elements of two bytes.
    per_token = attention.bytes(decode(1, 1001)) - attention.bytes(decode(1, 1000))
    assert per_token == 2 * (512 + 64)


def test_weights_in_blocks_of_fp8_have_a_scale_of_four_bytes_each():
    found = architecture(CONFIGS / "deepseek-v3.json").only("decode")
    down = found.layers[0].works[-1]
    # 7168 x 18432 weights, 56 x 144 blocks of 128 x 128.
    assert down.weight_bytes(decode(1)) == pytest.approx(7168 * 18432 + 56 * 144 * 4)
    assert down.compute == "fp8"


@pytest.mark.parametrize(
    ("name", "bits"),
    [
        ("bf16", 16),
        ("fp8", 8),
        ("int4", 4 + 16 / 128),  # a 16-bit scale for 128 weights
        ("awq", 4 + (16 + 4) / 128),  # and a zero point of 4 bits
        ("nvfp4", 4 + 8 / 16),
        ("mxfp4", 4 + 8 / 32),
    ],
)
def test_scales_and_zero_points_are_counted(name, bits):
    assert formats()[name].bytes_per_weight * 8 == pytest.approx(bits)


def test_tensor_parallel_2_halves_what_it_divides(written):
    whole, half = (written(tensor_parallel=size, **LLAMA) for size in (1, 2))
    assert half.weights * 2 == whole.weights
    assert shapes(half.layers[0]) == {
        "self_attn.qkv_proj": (6144 // 2, 4096),  # by columns
        "self_attn.o_proj": (4096, 4096 // 2),  # by rows
        "mlp.gate_up_proj": (28672 // 2, 4096),
        "mlp.down_proj": (4096, 14336 // 2),
    }
    one, other = (found.layers[0].works[1] for found in (whole, half))
    assert other.bytes(decode(4)) * 2 == one.bytes(decode(4))


def test_fewer_key_heads_than_gpus_are_kept_several_times(written):
    found = written(tensor_parallel=16, **LLAMA)
    assert shapes(found.layers[0])["self_attn.qkv_proj"] == ((2 + 2) * 128, 4096)


def test_the_router_is_whole_on_every_gpu():
    found = architecture(CONFIGS / "qwen3-30b-a3b.json", tensor_parallel=2)
    assert shapes(found.layers[0])["mlp.gate"] == (128, 2048)
    assert shapes(found.layers[0])["mlp.experts.w2"] == (2048, 384)


def test_a_tied_head_is_multiplied_all_the_same(written):
    tied, own = (written(**LLAMA, tie_word_embeddings=tied) for tied in (True, False))
    assert tied == own
    assert tied.head[0].weight_bytes(decode(1)) == 128256 * 4096 * 2


def test_the_vocabulary_is_padded_to_64(written):
    found = written(**LLAMA | {"vocab_size": 32001})
    assert found.head[0].n == 32064


def test_the_head_multiplies_the_last_position_of_each_prompt():
    head = architecture(CONFIGS / "llama-8b.json").head[0]
    assert head.flops(prefill(512)) == 2 * 128256 * 4096
    assert head.flops(decode(8)) == 8 * 2 * 128256 * 4096


def test_a_feed_forward_block_without_gate(written):
    found = written(**LLAMA | {"model_type": "nemotron"})
    assert list(shapes(found.layers[0]))[2:] == ["mlp.up_proj", "mlp.down_proj"]


def test_shared_experts_and_their_gate(written):
    keys = {"num_experts": 60, "num_experts_per_tok": 4, "moe_intermediate_size": 1408}
    shared = {"model_type": "qwen2_moe", "shared_expert_intermediate_size": 5632}
    found = written(**LLAMA | keys | shared)
    assert list(shapes(found.layers[0])) == [
        "self_attn.qkv_proj",
        "self_attn.o_proj",
        "mlp.gate",
        "mlp.shared_experts.gate_up_proj",
        "mlp.shared_experts.down_proj",
        "mlp.shared_expert_gate",
        "mlp.experts.w13",
        "mlp.experts.w2",
    ]


@pytest.mark.parametrize(
    ("keys", "layers"),
    [
        ({"first_k_dense_replace": 2}, [0, 0, 1, 1]),
        ({"decoder_sparse_step": 2}, [0, 1, 0, 1]),
        ({"mlp_only_layers": [0, 3]}, [0, 1, 1, 0]),
        ({"moe_layer_freq": 2}, [1, 0, 1, 0]),
        ({}, [1, 1, 1, 1]),
    ],
)
def test_which_layers_have_experts(written, keys, layers):
    experts = {"num_experts": 8, "num_experts_per_tok": 2, "moe_intermediate_size": 1024}
    found = written(**LLAMA | experts | keys | {"num_hidden_layers": 4})
    assert [int("mlp.gate" in shapes(layer)) for layer in found.layers] == layers


def test_attention_reads_the_cache_once():
    # Llama 3 8B: a token of cache has 8 key and 8 value heads of 128, 2 bytes each.
    attention = architecture(CONFIGS / "llama-8b.json").layers[0].works[1]
    per_token = 2 * 8 * 128 * 2
    queries_and_results = 2 * 32 * 128 * 2
    assert attention.bytes(decode(3, 1000)) == 3 * (1000 * per_token + queries_and_results)
    assert attention.flops(decode(3, 1000)) == 3 * 4 * 32 * 128 * 1000
    # A prompt of L tokens: query i sees i + 1 keys, together L (L + 1) / 2.
    assert attention.flops(prefill(512)) == 4 * 32 * 128 * (512 * 513 / 2)
    assert attention.bytes(prefill(512)) == 512 * (per_token + queries_and_results)


def test_context_lengths_that_labels_give_go_first():
    known = workload(
        context_len=7,
        generation_requests=[2],
        generation_tokens=[2],
        generation_kv_tokens=[3000],
    )
    attention = architecture(CONFIGS / "llama-8b.json").layers[0].works[1]
    assert attention.flops(known) == 4 * 32 * 128 * 3000


def test_a_later_chunk_of_a_prompt_sees_what_came_before():
    chunk = workload(context_requests=[1], context_tokens=[100], context_kv_tokens=[1100])
    attention = architecture(CONFIGS / "llama-8b.json").layers[0].works[1]
    pairs = sum(1000 + query for query in range(1, 101))
    assert attention.flops(chunk) == 4 * 32 * 128 * pairs


def test_an_unknown_context_is_not_a_number():
    attention = architecture(CONFIGS / "llama-8b.json").layers[0].works[1]
    unknown = workload(generation_requests=[1], generation_tokens=[1])
    assert np.isnan(attention.bytes(unknown)).all()
    assert np.isnan(attention.flops(unknown)).all()


def test_a_sliding_window_bounds_what_is_read(written):
    keys = {"layer_types": ["sliding_attention", "full_attention"], "sliding_window": 128}
    found = written(**LLAMA | keys | {"num_hidden_layers": 2})
    sliding, full = (layer.works[1] for layer in found.layers)
    assert sliding.name == "attention (window 128)"
    assert sliding.flops(decode(1, 1000)) == 4 * 32 * 128 * 128
    assert full.flops(decode(1, 1000)) == 4 * 32 * 128 * 1000
    assert sliding.bytes(decode(1, 100)) == full.bytes(decode(1, 100))


def test_the_recurrent_state_is_read_and_written_for_each_request():
    # Qwen3.5-27B: 48 heads with a state of 128 x 128 in FP32 (mamba_ssm_dtype).
    works = architecture(CONFIGS / "qwen35-27b.json").layers[0].works
    (rule,) = [work for work in works if isinstance(work, DeltaRule)]
    (convolution,) = [work for work in works if isinstance(work, Convolution)]
    state = 48 * 128 * 128 * 4
    # Per token: 16 heads of queries and keys, 48 of values and results.
    operands = (2 * 16 * 128 + 2 * 48 * 128) * 2
    assert rule.bytes(decode(8)) == 8 * (2 * state + operands)
    assert rule.bytes(prefill(512)) == 2 * state + 512 * operands
    assert rule.flops(decode(1)) == 7 * 48 * 128 * 128
    # 10,240 channels, the last 3 tokens kept.
    assert convolution.bytes(decode(1)) == 10_240 * 2 * (3 + 3 + 1 + 1)
    assert convolution.flops(decode(1)) == 2 * 4 * 10_240


def test_a_state_of_the_models_own_type_has_16_bits(tmp_path):
    keys = json.loads((CONFIGS / "qwen35-27b.json").read_text())
    del keys["text_config"]["mamba_ssm_dtype"]
    (tmp_path / "config.json").write_text(json.dumps(keys))
    rule = architecture(tmp_path).layers[0].works[3]
    assert rule.state_bits == 16


small = st.integers(1, 8)


@settings(max_examples=30, deadline=None)
@given(layers=st.integers(1, 20), heads=small, head_dim=st.sampled_from([32, 64]), width=small)
def test_bytes_grow_in_proportion_to_the_layers(written, layers, heads, head_dim, width):
    keys = LLAMA | {
        "num_attention_heads": 8 * heads,
        "num_key_value_heads": 8,
        "head_dim": head_dim,
        "intermediate_size": 64 * width,
    }
    one, many = (written(**keys | {"num_hidden_layers": count}) for count in (1, layers))
    head = one.head[0].weights
    assert many.weights - head == layers * (one.weights - head)
    step = decode(3)
    total = sum(work.bytes(step) for layer in many.layers for work in layer.works)
    assert total == pytest.approx(layers * sum(work.bytes(step) for work in one.layers[0].works))


@settings(max_examples=30, deadline=None)
@given(size=st.sampled_from([2, 4, 8]), requests=st.integers(1, 300), tokens=st.integers(1, 4096))
def test_tensor_parallelism_divides_operations_evenly(written, size, requests, tokens):
    whole, part = (written(tensor_parallel=count, **LLAMA) for count in (1, size))
    for step in (decode(requests), prefill(tokens)):
        for one, other in zip(whole.layers[0].works, part.layers[0].works, strict=True):
            assert one.flops(step) == pytest.approx(size * other.flops(step))
            assert one.weight_bytes(step) == pytest.approx(size * other.weight_bytes(step))


@settings(max_examples=50, deadline=None)
@given(count=st.integers(2, 512), chosen=st.integers(1, 8), tokens=st.integers(0, 5000))
def test_touched_experts_are_bounded(count, chosen, tokens):
    experts = Experts(count, min(chosen, count))
    (touched,) = experts.touched(np.array([float(tokens)]))
    least = experts.chosen if tokens else 0
    assert least - 1e-9 <= touched <= min(count, tokens * experts.chosen) + 1e-9


COMPRESSED = {
    "quant_method": "compressed-tensors",
    "ignore": ["lm_head", "re:.*mlp.down_proj$"],
    "config_groups": {
        "group_0": {
            "targets": ["Linear"],
            "weights": {"num_bits": 4, "type": "int", "group_size": 32, "symmetric": True},
            "input_activations": None,
        }
    },
}


@pytest.mark.parametrize(
    ("stated", "qkv", "down"),
    [
        (None, ("bf16", 2.0), ("bf16", 2.0)),
        ({"quant_method": "fp8"}, ("fp8", 1.0), ("fp8", 1.0)),
        (
            {"quant_method": "fp8", "modules_to_not_convert": ["model.layers.0.mlp.down_proj"]},
            ("fp8", 1.0),
            ("bf16", 2.0),
        ),
        (
            {"quant_method": "fp8", "weight_block_size": [128, 128]},
            ("fp8_block", 1 + 4 / 128**2),
            ("fp8_block", 1 + 4 / 128**2),
        ),
        (
            {"quant_method": "gptq", "bits": 4, "group_size": 64, "sym": True},
            ("int4", (4 + 16 / 64) / 8),
            ("int4", (4 + 16 / 64) / 8),
        ),
        (
            {"quant_method": "awq_marlin", "bits": 4, "group_size": 128, "zero_point": True},
            ("awq", (4 + 20 / 128) / 8),
            ("awq", (4 + 20 / 128) / 8),
        ),
        (COMPRESSED, ("int4", (4 + 16 / 32) / 8), ("bf16", 2.0)),
        (
            {"quant_method": "modelopt", "quant_algo": "NVFP4", "ignore": ["*.mlp.*"]},
            ("nvfp4", 4.5 / 8),
            ("bf16", 2.0),
        ),
        ({"quantization": {"quant_algo": "FP8"}}, ("fp8", 1.0), ("fp8", 1.0)),
        (
            {"quant_method": "mxfp4", "modules_to_not_convert": ["model.layers.*.self_attn"]},
            ("bf16", 2.0),
            ("mxfp4", 4.25 / 8),
        ),
    ],
)
def test_formats_that_configurations_name(written, stated, qkv, down):
    found = written(**LLAMA, quantization_config=stated)
    works = {work.name: work for work in found.layers[0].works}
    for name, (format_, size) in (("self_attn.qkv_proj", qkv), ("mlp.down_proj", down)):
        assert works[name].format.name == format_
        assert works[name].format.bytes_per_weight == pytest.approx(size)
    assert found.head[0].format.name == "bf16"


@pytest.mark.parametrize(
    ("weights", "activations", "name"),
    [
        ({"num_bits": 8, "type": "float"}, {"num_bits": 8}, "fp8"),
        ({"num_bits": 8, "type": "float"}, None, "fp8_weight_only"),
        ({"num_bits": 8, "type": "float", "block_structure": [128, 128]}, {}, "fp8_block"),
        ({"num_bits": 8, "type": "int"}, {"num_bits": 8}, "int8"),
        ({"num_bits": 8, "type": "int"}, None, "int8_weight_only"),
        ({"num_bits": 4, "type": "float", "group_size": 16}, {"num_bits": 4}, "nvfp4"),
        ({"num_bits": 4, "type": "float", "group_size": 16}, None, "nvfp4_weight_only"),
        ({"num_bits": 4, "type": "float", "group_size": 32}, None, "mxfp4"),
        ({"num_bits": 4, "type": "int", "symmetric": False}, None, "awq"),
    ],
)
def test_formats_of_compressed_tensors(written, weights, activations, name):
    group = {"targets": ["Linear"], "weights": weights, "input_activations": activations}
    stated = {"quant_method": "compressed-tensors", "config_groups": {"group_0": group}}
    found = written(**LLAMA, quantization_config=stated)
    assert found.layers[0].works[0].format.name == name


def test_a_cache_in_fp8_has_half_the_bytes(written):
    stated = {"quant_method": "fp8", "kv_cache_scheme": {"num_bits": 8, "type": "float"}}
    found = written(**LLAMA, quantization_config=stated)
    assert found.layers[0].works[1].cache_bits == 8


@pytest.mark.parametrize(
    ("keys", "says"),
    [
        ({"hidden_size": None}, "does not state hidden_size"),
        ({"hidden_size": 10**30}, "does not state hidden_size"),
        ({"hidden_size": "4096"}, "does not state hidden_size"),
        ({"num_attention_heads": 0}, "does not state num_attention_heads"),
        ({"num_hidden_layers": 16_000_000}, "16,000,000 layers, which cannot be"),
        ({"layer_types": ["mamba"] * 32}, "layers of type 'mamba'"),
        ({"quantization_config": {"quant_method": "gguf"}}, "not known here: 'gguf'"),
        ({"quantization_config": ["fp8"]}, "not known here"),
        ({"quantization_config": {"quant_method": "gptq", "bits": 3}}, "not known here"),
        ({"quantization_config": {"quant_method": "modelopt", "quant_algo": "X"}}, "not known"),
        ({"quantization_config": {"quant_method": "fp8", "ignore": ["re:("]}}, "no regular"),
        ({"num_experts": 8}, "does not state num_experts_per_tok"),
        ({"num_experts": 8, "num_experts_per_tok": 9}, "chooses 9 of 8 experts"),
        ({"num_attention_heads": 8192}, "does not state head_dim"),
    ],
)
def test_configurations_that_cannot_be_used_are_errors(written, keys, says):
    with pytest.raises(ConfigError, match=says):
        written(**LLAMA | keys)


def test_a_size_that_cannot_be_divided_is_an_error(written):
    with pytest.raises(ConfigError, match=r"attention heads \(32\) cannot be divided by .* 3"):
        written(tensor_parallel=3, **LLAMA)
