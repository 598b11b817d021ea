"""Kernels against the ceilings: on real captures, and on built ones small enough to check."""

import csv
import io
import json
import re
import sqlite3
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest

import kernelscope
from export_builder import DECODE, ExportBuilder
from exports import exported
from kernelscope import RunFacts, errors
from kernelscope.ceilings import ROOFLINE
from kernelscope.ceilings.formats import formats
from kernelscope.ceilings.gpus import FROM_DATASHEET, FROM_EXPORT, FROM_USER, _table, find_peaks
from kernelscope.ceilings.run_facts import CACHE_BITS
from kernelscope.commands.roofline import CACHES, FORMATS, PHASES, WEIGHTS
from kernelscope.intervals import covered
from kernelscope.rendering.roofline import ROOFLINE_FORMATS
from kernelscope.summary.tables import PHASES as ALL_PHASES
from kernelscope.trace import Gpu

FIXTURES = Path(__file__).parent.parent / "fixtures"
CONFIGS = FIXTURES / "configs"
QWEN = exported("2023.4/qwen35-27b_b1")
TAIL = exported("2023.4/qwen35-27b_b8_tail")
MIXED = exported("2023.4/qwen35-27b_b8_mixed")
MOE = exported("2025.3/qwen3-30b-a3b_fp8")
LLAMA = exported("2024.2/llama-8b_graphlevel")
H200 = 4_814_304_000_000  # TARGET_INFO_GPU.memoryBandwidth of the captures
SIZE = {
    "model_type": "llama", "hidden_size": 512, "intermediate_size": 1024,
    "num_hidden_layers": 3, "num_attention_heads": 8, "num_key_value_heads": 2,
    "vocab_size": 6400,
}  # fmt: skip
LAYER = [
    ("rms_norm_kernel", 1), ("nvjet_qkv", 4), ("flash_fwd_kernel", 3), ("nvjet_o", 2),
    ("rms_norm_kernel", 1), ("nvjet_gate_up", 6), ("void vllm::act_and_mul_kernel<int>(int)", 1),
    ("nvjet_down", 5),
]  # fmt: skip
HEAD = [("rms_norm_kernel", 1), ("nvjet_lm_head", 9)]
SMALL_GPU = {"bandwidth_gbs": 1000, "peak_tflops": 100}


@pytest.fixture(scope="module")
def qwen():
    """Qwen3.5-27B, batch 1; decode steps at 514 tokens of context on average."""
    facts = RunFacts(context_len=514)
    return kernelscope.roofline(QWEN, CONFIGS / "qwen35-27b.json", run=facts)


@pytest.fixture(scope="module")
def moe():
    facts = RunFacts(quantization="fp8", context_len=514)
    return kernelscope.roofline(MOE, CONFIGS / "qwen3-30b-a3b.json", run=facts)


@pytest.fixture
def config(tmp_path):
    """Writes a small model's configuration, with these keys changed."""

    def write(**changes):
        path = tmp_path / "config.json"
        path.write_text(json.dumps(SIZE | changes))
        return path

    return write


def steps_of(layers, head=HEAD, number=3, label=DECODE):
    """An export of so many equal steps."""
    export = ExportBuilder("2024.2")
    for _ in range(number):
        export.step(label, [kernel for layer in layers for kernel in layer] + head)
    return export


@pytest.fixture
def small(write, config):
    """The roofline of steps of a small model on a GPU of 1 TB/s and 100 TFLOP/s."""

    def run(export=None, context_len=100, **facts):
        path = write(export or steps_of([LAYER] * 3))
        known = RunFacts(context_len=context_len, **SMALL_GPU | facts)
        return kernelscope.roofline(path, config(), run=known)

    return run


def row(roofline, phase, name):
    (found,) = roofline.rows(roofline.phase(phase)).filter(name=name).to_dicts()
    return found


def sql(path, query):
    with closing(sqlite3.connect(path)) as database:
        return database.execute(query).fetchall()


def test_the_multiplies_of_a_decode_step_move_the_models_weights(qwen):
    # 25,621,954,560 weights, listed projection by projection in test_ceilings_model.py, of two
    # bytes each.
    gemm = qwen.rows(qwen.phase("decode")).filter(kind="gemm")
    assert gemm["weight_bytes"].sum() == 2 * 25_621_954_560
    assert gemm["bytes"].sum() == pytest.approx(2 * 25_621_954_560, rel=0.01)
    assert gemm["calls"].sum() == 305  # the README's count of matrix multiplies
    assert qwen.weights == 25_621_954_560


def test_a_decode_step_is_bound_by_memory_and_its_floor_is_the_weights_over_bandwidth(qwen):
    decode = qwen.phase("decode")
    gemm = qwen.rows(decode).filter(kind="gemm")
    assert set(gemm["bound"]) == {"memory"}
    assert decode.gemm_floor_ms == pytest.approx(2 * 25_621_954_560 / H200 * 1e3, rel=0.001)
    assert decode.gemm_floor_ms < decode.floor_ms < decode.kernel_ms < decode.wall_ms
    assert decode.tokens_per_s_at_floor == pytest.approx(1e3 / decode.floor_ms)


def test_times_of_the_work_and_the_rest_add_up_to_the_kernel_time(qwen, moe):
    for roofline, path in ((qwen, QWEN), (moe, MOE)):
        summary = kernelscope.summarize(path)
        for phase in roofline.phases:
            total = roofline.rows(phase)["kernel_ms"].sum() + phase.other_ms
            assert total == pytest.approx(phase.kernel_ms)
            assert phase.kernel_ms == pytest.approx(summary.phase(phase.phase).kernel_ms)
            assert phase.wall_ms == pytest.approx(summary.phase(phase.phase).wall_ms.median)


def test_split_k_reductions_count_to_the_multiply_before_them(qwen):
    categories = {
        found["category"]: found["kernel_ms"]
        for found in kernelscope.summarize(QWEN).table("category").filter(phase="decode").to_dicts()
    }
    assert qwen.phase("decode").gemm_ms == pytest.approx(
        categories["gemm"] + categories["splitk_reduce"]
    )
    # Each down projection has one: more time than its 64 multiplies alone take.
    alone = sql(
        QWEN,
        """SELECT sum(end - start) / 4e6 FROM CUPTI_ACTIVITY_KIND_KERNEL JOIN StringIds
           ON shortName = id WHERE value = 'nvjet_sm90_tst_128x8_64x12_2x1_v_bz_splitK_TNT'""",
    )[0][0]
    assert alone < row(qwen, "decode", "mlp.down_proj")["kernel_ms"] < 1.1 * alone


def test_lm_head_is_the_largest_single_multiply(qwen):
    # By bare SQL: the only kernel of its name in each step is lm_head.
    times = sql(
        QWEN,
        """SELECT avg(end - start) / 1e6 FROM CUPTI_ACTIVITY_KIND_KERNEL JOIN StringIds
           ON shortName = id WHERE value = 'nvjet_sm90_tst_512x8_64x3_2x1_v_bz_TNT'
           AND end - start > 600000""",
    )
    found = row(qwen, "decode", "lm_head")
    assert found["kernel_ms"] == pytest.approx(times[0][0], rel=0.01)
    assert found["bytes_per_s"] == pytest.approx(
        248320 * 5120 * 2 / (found["kernel_ms"] / 1e3), rel=0.001
    )
    assert found["of_peak"] == pytest.approx(found["bytes_per_s"] / H200)


def test_a_prefill_step_is_bound_by_compute(qwen):
    found = row(qwen, "prefill", "mlp.gate_up_proj")
    flops = 64 * 2 * 512 * 34816 * 5120
    assert found["flops"] == flops
    assert found["bound"] == "compute"
    assert found["floor_ms"] == pytest.approx(flops / 989.5e12 * 1e3)
    assert found["of_peak"] == pytest.approx(found["flops_per_s"] / 989.5e12)
    assert row(qwen, "prefill", "lm_head")["bound"] == "memory"


def test_nothing_of_a_dense_capture_is_above_its_ceiling(qwen):
    assert (qwen.table["of_peak"] < 1).all()
    assert qwen.warnings == ()


def test_steps_of_several_batch_sizes_are_averaged():
    # One step of 8 requests and one of 6 (fixtures/README.md).
    facts = RunFacts(context_len=525)
    roofline = kernelscope.roofline(TAIL, CONFIGS / "qwen35-27b.json", run=facts)
    decode = roofline.phase("decode")
    assert (decode.steps, decode.tokens_per_step, decode.requests_per_step) == (2, 7, 7)
    rule = row(roofline, "decode", "gated delta rule")
    per_request = 2 * 48 * 128 * 128 * 4 + (2 * 16 * 128 + 2 * 48 * 128) * 2
    assert rule["bytes"] == 48 * 7 * per_request
    assert 0.5 < rule["of_peak"] < 1


def test_mixed_steps_have_all_of_their_work():
    facts = RunFacts(context_len=514)
    roofline = kernelscope.roofline(MIXED, CONFIGS / "qwen35-27b.json", run=facts)
    mixed = roofline.phase("mixed")
    assert mixed.tokens_per_step == 3074
    assert set(roofline.rows(mixed)["kind"]) == {"gemm", "attention", "recurrence", "convolution"}


def test_experts_of_one_token(moe):
    found = row(moe, "decode", "mlp.experts.w13")
    assert found["weight_bytes"] == pytest.approx(48 * 8 * 2 * 768 * 2048)
    assert found["format"] == "fp8"
    assert 0.3 < found["of_peak"] < 1


def test_work_above_its_ceiling_is_told_and_marked(moe):
    # Random weights send the prompt's tokens to few experts: with uniform routing all 128 would
    # have to be read, 0.9 TB in 1.6 ms.
    above = moe.table.filter(moe.table["of_peak"] > 1)
    assert set(above["name"]) == {"mlp.experts.w13", "mlp.experts.w2"}
    assert set(above["phase"]) == {"prefill"}
    warnings = [one for one in moe.warnings if "of peak" in one]
    assert len(warnings) == 2
    assert all("fewer than uniform routing touches" in one for one in warnings)
    assert re.search(r"mlp.experts.w13 .* \d{3}\.\d % !", ROOFLINE_FORMATS["text"](moe))


def test_weights_in_16_bits_beside_quantization_kernels_are_told():
    roofline = kernelscope.roofline(MOE, CONFIGS / "qwen3-30b-a3b.json")
    assert any("Give the run's format with --quantization" in one for one in roofline.warnings)
    assert any(
        "mlp.experts.w13 reaches 10" in one and "decode" in one and "--quantization" in one
        for one in roofline.warnings
    )


def test_phases_without_their_kernels_are_declined_and_the_others_measured():
    facts = RunFacts(context_len=256)
    roofline = kernelscope.roofline(LLAMA, CONFIGS / "llama-8b.json", run=facts)
    assert roofline.phase("decode").steps == 0
    assert "--cuda-graph-trace=node" in roofline.phase("decode").declined
    assert roofline.phase("mixed").steps == 1
    assert 0.6 < roofline.phase("mixed").gemm_of_peak < 0.9
    assert "no roofline: the graph replays" in ROOFLINE_FORMATS["text"](roofline)


@pytest.mark.parametrize(
    ("path", "model", "says"),
    [
        (QWEN, "llama-8b", "the step has 64 layers and the configuration 32"),
        (QWEN, "deepseek-v3", "the step has 64 layers and the configuration 61"),
        (MOE, "qwen35-27b", "the step has 48 layers and the configuration 64"),
    ],
)
def test_another_models_configuration_is_declined(path, model, says):
    with pytest.raises(errors.ModelMismatch, match=says):
        kernelscope.roofline(path, CONFIGS / f"{model}.json")


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        (
            {"num_experts": 8, "num_experts_per_tok": 2, "moe_intermediate_size": 64},
            "3 attention layers have 4 multiplies where the configuration has 3",
        ),
        (
            {"num_experts": 8, "num_experts_per_tok": 2, "moe_intermediate_size": 64},
            r"0 grouped multiplies where .* 2 \(mlp.experts.w13, mlp.experts.w2\)",
        ),
        (
            {"layer_types": ["linear_attention"] * 3, "linear_num_value_heads": 4,
             "linear_num_key_heads": 4, "linear_key_head_dim": 8, "linear_value_head_dim": 8,
             "linear_conv_kernel_dim": 4},
            "layer 0 is attention . mlp in the trace and has linear_attention in the config",
        ),
    ],
)  # fmt: skip
def test_what_was_found_and_expected_is_said_by_layer(write, config, changes, says):
    path = write(steps_of([LAYER] * 3))
    with pytest.raises(errors.ModelMismatch, match=says):
        kernelscope.roofline(path, config(**changes), run=RunFacts(**SMALL_GPU))


def test_a_step_without_lm_head_is_declined(write, config):
    path = write(steps_of([LAYER] * 3, head=[("rms_norm_kernel", 1)]))
    with pytest.raises(errors.ModelMismatch, match="no multiply behind the layers is lm_head"):
        kernelscope.roofline(path, config(), run=RunFacts(**SMALL_GPU))


def test_a_trace_without_steps_is_declined(write, config):
    export = ExportBuilder("2024.2")
    export.kernel("nvjet_a", 0, 5)
    with pytest.raises(errors.ModelMismatch, match="no complete step"):
        kernelscope.roofline(write(export), config(), run=RunFacts(**SMALL_GPU))


def test_steps_without_token_counts_are_declined(write, config):
    label = "step[EXTEND bs=1]"
    path = write(steps_of([LAYER] * 3, label=label))
    with pytest.raises(errors.ModelMismatch, match="do not say how many tokens"):
        kernelscope.roofline(path, config(), run=RunFacts(**SMALL_GPU))


def test_figures_of_a_small_step_by_hand(small):
    roofline = small()
    # Hidden 512, 8 query and 2 key heads of 64: qkv_proj is 512 x 768. One token: input 512,
    # output 768 elements of two bytes. 1 TB/s is 1000 bytes in 1 ns.
    qkv = row(roofline, "decode", "self_attn.qkv_proj")
    size = 3 * 2 * (512 * 768 + 512 + 768)
    assert qkv["bytes"] == size
    assert qkv["flops"] == 3 * 2 * 512 * 768
    assert qkv["kernel_ms"] == pytest.approx(3 * 0.004)
    assert qkv["floor_ms"] == pytest.approx(size / 1e12 * 1e3)
    assert qkv["bytes_per_s"] == pytest.approx(size / 12e-6)
    assert qkv["of_peak"] == pytest.approx(size / 12e-6 / 1e12)
    # 100 tokens of 2 key and 2 value heads of 64.
    attention = row(roofline, "decode", "attention")
    assert attention["bytes"] == 3 * (100 * 4 * 64 * 2 + 8 * 2 * 64 * 2)
    decode = roofline.phase("decode")
    assert decode.kernel_ms == pytest.approx((3 * 23 + 10) / 1e3)
    assert decode.wall_ms == pytest.approx(0.1)
    assert decode.floor_ms == pytest.approx(roofline.table["floor_ms"].sum())
    assert decode.other_ms == pytest.approx((3 * 3 + 1) / 1e3)


def test_peaks_of_the_user_decide_the_bound(small):
    assert row(small(), "decode", "mlp.down_proj")["bound"] == "memory"
    slow = small(peak_tflops=0.001)
    assert row(slow, "decode", "mlp.down_proj")["bound"] == "compute"


def test_an_unknown_context_leaves_attention_without_floor(small):
    roofline = small(context_len=None)
    attention = row(roofline, "decode", "attention")
    assert (attention["bytes"], attention["floor_ms"], attention["bound"]) == (None, None, None)
    assert roofline.phase("decode").context_len is None
    assert any("Give --context-len N" in one for one in roofline.warnings)
    assert "–" in ROOFLINE_FORMATS["text"](roofline)


def test_multiplies_of_a_draft_model_are_told(small):
    roofline = small(steps_of([LAYER] * 3, head=[*HEAD, ("nvjet_draft", 2)]))
    assert any("1 GEMM of each decode step" in one for one in roofline.warnings)
    assert row(roofline, "decode", "lm_head")["kernel_ms"] == pytest.approx(0.009)
    assert roofline.phase("decode").other_ms == pytest.approx((3 * 3 + 1 + 2) / 1e3)


def test_a_multiply_before_the_final_norm_is_not_taken_for_lm_head(small):
    roofline = small(steps_of([LAYER] * 3, head=[("nvjet_adapter", 2), *HEAD]))
    assert row(roofline, "decode", "lm_head")["kernel_ms"] == pytest.approx(0.009)
    assert any("1 GEMM of each decode step" in one for one in roofline.warnings)


def test_collectives_ask_for_the_tensor_parallel_size(small):
    nccl = ("ncclDevKernel_AllReduce_Sum_bf16_RING_LL", 2)
    layer = [*LAYER[:4], nccl, *LAYER[4:], nccl]
    assert any("--tensor-parallel" in one for one in small(steps_of([layer] * 3)).warnings)
    parallel = small(steps_of([layer] * 3), tensor_parallel=2)
    assert not any("--tensor-parallel" in one for one in parallel.warnings)
    assert row(parallel, "decode", "mlp.down_proj")["k"] == 512


def test_steps_that_differ_are_left_out_and_told(small):
    export = steps_of([LAYER] * 3, number=3)
    odd = [*LAYER[:4], ("nvjet_extra", 2), *LAYER[4:]]
    kernels = [kernel for layer in (LAYER, odd, LAYER) for kernel in layer]
    export.step(DECODE, kernels + HEAD)
    export.step(DECODE, [kernel for layer in [LAYER] * 3 for kernel in layer] + HEAD)
    roofline = small(export)
    assert roofline.phase("decode").steps == 4
    assert any("1 of 5 decode steps" in one for one in roofline.warnings)


EXPERTS = {
    "model_type": "qwen2_moe", "num_experts": 8, "num_experts_per_tok": 2,
    "moe_intermediate_size": 256, "shared_expert_intermediate_size": 512,
}  # fmt: skip


def test_experts_and_shared_experts_are_matched_by_their_categories(write, config):
    layer = [
        *LAYER[:4], ("rms_norm_kernel", 1), ("nvjet_gate", 1), ("topkGating", 1),
        ("nvjet_shared_up", 4), ("fused_moe_kernel", 7), ("nvjet_shared_down", 3),
        ("gemvNSP_kernel", 1), ("fused_moe_kernel", 5),
    ]  # fmt: skip
    facts = RunFacts(context_len=9, **SMALL_GPU)
    path = write(steps_of([layer] * 3))
    roofline = kernelscope.roofline(path, config(**EXPERTS), run=facts)
    times = dict(roofline.table.select("name", "kernel_ms").iter_rows())
    expected = {
        "mlp.gate": 1, "mlp.shared_experts.gate_up_proj": 4, "mlp.shared_experts.down_proj": 3,
        "mlp.shared_expert_gate": 1, "mlp.experts.w13": 7, "mlp.experts.w2": 5,
    }  # fmt: skip
    for name, each in expected.items():
        assert times[name] == pytest.approx(3 * each / 1e3)
    assert any("only the sum of these rows is sure" in one for one in roofline.warnings)


def test_ranks_have_rooflines_of_their_own(write, config):
    export = ExportBuilder("2024.2")
    kernels = [kernel for layer in [LAYER] * 3 for kernel in layer] + HEAD
    for pid, slower in ((10, 0), (20, 2)):
        for _ in range(3):
            mine = [(name, each + slower) for name, each in kernels]
            export.step(DECODE, mine, pid=pid, tid=pid, device=0, lag=5)
    facts = RunFacts(tensor_parallel=2, context_len=9, **SMALL_GPU)
    roofline = kernelscope.roofline(write(export), config(), run=facts)
    fast, slow = (roofline.phase("decode", rank) for rank in (0, 1))
    assert fast.gemm_bytes == slow.gemm_bytes
    assert slow.gemm_ms == pytest.approx(fast.gemm_ms + (3 * 4 + 1) * 0.002)
    assert "rank 1 decode: 3 steps" in ROOFLINE_FORMATS["text"](roofline)


def test_an_unknown_model_type_is_told(write, config):
    path = write(steps_of([LAYER] * 3))
    facts = RunFacts(context_len=9, **SMALL_GPU)
    roofline = kernelscope.roofline(path, config(model_type="new_model"), run=facts)
    assert any("'new_model' is not among those" in one for one in roofline.warnings)


def test_what_a_step_would_take_without_a_category(small):
    experiments = {one.what: one for one in small().phase("decode").what_if}
    # Nothing runs side by side, so a category's own time goes: 3 x 17 + 9 µs of gemm.
    without = experiments["gemm takes no time"]
    assert without.now_ms == pytest.approx(0.1)
    assert without.step_ms == pytest.approx(0.1 - 0.060)
    assert "at least 0.04 ms instead of 0.10 ms" in without.sentence
    assert "provided that all other kernels and the idle time stay" in without.sentence


def test_time_that_another_category_covers_does_not_go(write, config):
    export = ExportBuilder("2024.2")
    for step in range(3):
        at = 100 + 100 * step
        export.step(DECODE, [kernel for layer in [LAYER] * 3 for kernel in layer] + HEAD, at=at)
        # Beside the last kernel, lm_head, on another stream: 6 of its 9 µs.
        call = export.call("cudaLaunchKernel_v7000", at + 90)
        export.kernel("rms_norm_kernel", at + 10 + 3 * 23 + 1, 6, call, stream=8)
    facts = RunFacts(context_len=9, **SMALL_GPU)
    roofline = kernelscope.roofline(write(export), config(), run=facts)
    experiments = {one.what: one for one in roofline.phase("decode").what_if}
    assert experiments["gemm takes no time"].step_ms == pytest.approx(0.1 - 0.054)


def test_multiplies_at_90_percent_of_peak(small):
    roofline = small()
    gemm = roofline.table.filter(kind="gemm")
    first = roofline.phase("decode").what_if[0]
    saved = (gemm["kernel_ms"] - gemm["floor_ms"] / 0.9).clip(0).sum()
    assert first.step_ms == pytest.approx(0.1 - saved)
    assert first.sentence.startswith("If all GEMMs ran at 90 % of peak bandwidth")


def test_multiplies_that_are_faster_already_gain_nothing(small):
    # A hundredth of the bandwidth: every multiply is above its ceiling.
    roofline = small(bandwidth_gbs=10)
    assert (roofline.table.filter(kind="gemm")["of_peak"] > 0.9).all()
    assert roofline.phase("decode").what_if[0].step_ms == pytest.approx(0.1)


def test_categories_never_save_more_than_the_step_takes(qwen, moe):
    for roofline in (qwen, moe):
        for phase in roofline.phases:
            for one in phase.what_if:
                assert 0 <= one.step_ms <= one.now_ms


def test_covered_time_is_the_union_of_each_group():
    start, end = np.array([0, 2, 20, 0, 5]), np.array([5, 3, 30, 4, 6])
    group = np.array([0, 0, 0, 1, 1])
    assert covered(start, end, group) == (5 + 10) + (4 + 1)
    assert covered(start[:0], end[:0], group[:0]) == 0


@pytest.mark.parametrize(
    ("name", "bf16", "bandwidth"),
    [
        ("NVIDIA H200", 989.5, 4800),
        ("NVIDIA H100 80GB HBM3", 989.4, 3350),
        ("NVIDIA H100 PCIe", 756, 2000),
        ("NVIDIA A100-SXM4-80GB", 312, 2039),
        ("NVIDIA A100-PCIE-40GB", 312, 1555),
        ("NVIDIA L40S", 362.05, 864),
        ("NVIDIA B200", 2250, 7700),
        ("NVIDIA GeForce RTX 4090", 165.2, 1008),
    ],
)
def test_gpus_are_known_by_the_name_of_the_driver(name, bf16, bandwidth):
    peaks = find_peaks(Gpu(0, name))
    assert peaks.compute("bf16") == bf16 * 1e12
    assert peaks.bandwidth_bytes_per_s == bandwidth * 1e9
    assert peaks.bandwidth_source == FROM_DATASHEET


def test_bandwidth_of_the_export_goes_before_the_datasheet_and_the_users_before_both():
    gpu = Gpu(0, "NVIDIA H200", memory_bandwidth_bytes_per_s=H200)
    peaks = find_peaks(gpu)
    assert (peaks.bandwidth_bytes_per_s, peaks.bandwidth_source) == (H200, FROM_EXPORT)
    given = find_peaks(gpu, bandwidth_gbs=4000, peak_tflops=800)
    assert (given.bandwidth_bytes_per_s, given.bandwidth_source) == (4e12, FROM_USER)
    assert (given.compute("fp8"), given.compute_source) == (8e14, FROM_USER)


@pytest.mark.parametrize(
    "name",
    ["NVIDIA H100 80GB HBM3 MIG 1g.10gb", "NVIDIA GeForce RTX 4090 Laptop GPU", "NVIDIA A10G", "X"],
)
def test_other_gpus_are_not_taken_for_known_ones(name):
    with pytest.raises(
        errors.UnknownGpu, match=r"compute peak and memory bandwidth of .*"
    ) as raised:
        find_peaks(Gpu(0, name))
    assert "--peak-tflops" in raised.value.hint
    assert "--bandwidth-gbs" in raised.value.hint


def test_what_is_known_of_a_gpu_is_not_asked_for():
    gpu = Gpu(0, "X", memory_bandwidth_bytes_per_s=10**12)
    with pytest.raises(errors.UnknownGpu) as raised:
        find_peaks(gpu)
    assert "--bandwidth-gbs" not in raised.value.hint
    assert find_peaks(gpu, peak_tflops=1).bandwidth_bytes_per_s == 1e12
    with pytest.raises(errors.UnknownGpu):
        find_peaks(None, peak_tflops=1)


def test_every_gpu_has_a_source_and_doubles_its_peak_with_half_the_bits():
    for entry in _table():
        assert "NVIDIA" in entry["source"]
        assert re.search(r"20\d\d", entry["source"])
        tflops = entry["tflops"]
        assert tflops.get("fp8", 2 * tflops["bf16"]) == pytest.approx(2 * tflops["bf16"], rel=0.02)


def test_a_precision_that_the_gpu_lacks_runs_in_16_bits(small):
    roofline = small(quantization="fp8")
    assert any("no FP8 peak here; that of BF16 is used" in one for one in roofline.warnings)


@pytest.mark.parametrize(
    "facts",
    [
        {"quantization": "fp7"},
        {"kv_cache": "int2"},
        {"tensor_parallel": 0},
        {"context_len": float("nan")},
        {"bandwidth_gbs": float("inf")},
        {"peak_tflops": -1},
    ],
)
def test_facts_that_cannot_be_are_errors(facts):
    with pytest.raises(errors.ConfigError):
        RunFacts(**facts)


def test_a_cache_in_fp8_is_half_as_large(small):
    half, whole = (
        row(small(kv_cache=kept), "decode", "attention")["bytes"] for kept in ("fp8", "auto")
    )
    assert whole - half == 3 * 100 * 4 * 64


def test_the_table_follows_its_contract(qwen):
    assert dict(qwen.table.schema) == dict(ROOFLINE)


def test_one_phase_can_be_chosen(qwen):
    only = qwen.only("decode")
    assert [phase.phase for phase in only.phases] == ["decode"]
    assert set(only.table["phase"]) == {"decode"}
    with pytest.raises(errors.PhaseNotFound, match="no complete mixed step"):
        qwen.only("mixed")
    with pytest.raises(KeyError, match="there are: decode"):
        qwen.phase("mixed")


def test_names_of_the_command_line_are_those_of_the_library():
    assert tuple(ROOFLINE_FORMATS) == FORMATS
    assert tuple(formats()) == WEIGHTS
    assert tuple(CACHE_BITS) == CACHES
    assert set(PHASES) <= set(ALL_PHASES)


def test_the_command_prints_the_table(run):
    config = CONFIGS / "qwen35-27b.json"
    done = run("roofline", QWEN, "--model-config", config, "--context-len", "514")
    assert done.exit_code == 0, done.stderr
    assert "lm_head                       1    2.543" in done.stdout
    assert "times the floor" in done.stdout
    assert "If all GEMMs ran at 90 % of peak bandwidth" in done.stdout
    assert max(map(len, done.stdout.splitlines())) <= 100


def test_a_narrow_terminal_has_fewer_columns_and_whole_figures(moe):
    from rich.console import Console

    from kernelscope.rendering.roofline import print_roofline

    out = io.StringIO()
    print_roofline(moe, Console(file=out, width=80, color_system=None))
    lines = out.getvalue().splitlines()
    assert max(map(len, lines)) <= 80
    table = [line for line in lines if "mlp.experts.w13" in line and "memory" in line]
    assert len(table) == 2
    assert all("…" not in line for line in table)


def test_json_and_csv_hold_the_whole(run):
    config = CONFIGS / "qwen35-27b.json"
    options = ("--model-config", config, "--context-len", "514", "--phase", "decode")
    data = json.loads(run("roofline", QWEN, *options, "--format", "json").stdout)
    (phase,) = data["phases"]
    assert phase["gemm_bytes"] == pytest.approx(51.26e9, rel=0.001)
    assert len(phase["work"]) == 11
    assert data["peaks"][0]["ridge_flop_per_byte"] == pytest.approx(989.5e12 / H200)
    assert data["weights"] == 25_621_954_560
    rows = list(
        csv.DictReader(io.StringIO(run("roofline", QWEN, *options, "--format", "csv").stdout))
    )
    assert [one["name"] for one in rows] == [one["name"] for one in phase["work"]]


def test_every_key_of_the_json_is_documented(qwen):
    page = (FIXTURES.parent / "docs" / "roofline.md").read_text("utf-8")
    data = qwen.to_dict()
    phase = data["phases"][0]
    parts = (data["peaks"][0], phase, phase["work"][0], phase["what_if"][0])
    own = set(data) - set(kernelscope.summarize(QWEN).provenance())
    keys = own.union(*parts)
    assert [key for key in keys if f"`{key}`" not in page and f"`{key}[]`" not in page] == []


def test_every_format_of_weights_is_documented():
    page = (FIXTURES.parent / "docs" / "roofline.md").read_text("utf-8")
    assert [name for name in formats() if f"`{name}`" not in page] == []


def test_markdown_has_a_table_per_phase(run):
    config = CONFIGS / "qwen35-27b.json"
    text = run("roofline", QWEN, "--model-config", config, "--format", "markdown").stdout
    assert text.count("| work | calls |") == 2
    assert "## Assumptions" in text
    assert "--context-len" in text


def test_a_folder_with_a_configuration_serves(run, tmp_path):
    (tmp_path / "config.json").write_bytes((CONFIGS / "qwen35-27b.json").read_bytes())
    output = tmp_path / "out.txt"
    done = run("roofline", QWEN, "--model-config", tmp_path, "-o", output)
    assert done.exit_code == 0, done.stderr
    assert "64" in output.read_text("utf-8")
    again = run("roofline", QWEN, "--model-config", tmp_path, "-o", output)
    assert again.exit_code == 1
    assert "--force" in again.stderr


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (["--model-config", "none.json"], "none.json cannot be read"),
        (["--model-config", CONFIGS / "llama-8b.json"], "can be matched"),
        (["--model-config", CONFIGS / "qwen35-27b.json", "--phase", "mixed"], "no complete mixed"),
        (["--model-config", CONFIGS / "qwen35-27b.json", "--tensor-parallel", "5"], "be divided"),
    ],
)
def test_what_cannot_be_done_is_one_line(run, options, says):
    done = run("roofline", QWEN, *options)
    assert done.exit_code == 1
    assert done.stdout == ""
    assert says in done.stderr
    assert done.stderr.count("\n") == 1


def test_splitting_by_batch_is_no_option_of_it(run):
    config = CONFIGS / "qwen35-27b.json"
    assert run("roofline", QWEN, "--model-config", config, "--split-by", "batch").exit_code == 2


def test_text_of_a_configuration_reaches_no_terminal_unescaped(run, write, config):
    path = config(model_type="\x1b[31mred")
    done = run(
        "roofline", write(steps_of([LAYER] * 3)), "--model-config", path,
        "--peak-tflops", "1", "--bandwidth-gbs", "1",
    )  # fmt: skip
    assert done.exit_code == 0, done.stderr
    assert "\x1b" not in done.stdout
