"""What surroundings decide, each pass on the smallest step that shows it."""

from pathlib import Path

import polars as pl
import pytest

import kernelscope
from export_builder import DECODE

SOURCES = Path(__file__).parent.parent / "fixtures" / "inductor"
GEMM, SPLITK_GEMM = "nvjet_sm90_tst_64x8_64x16_4x1_v_bz_TNT", "nvjet_sm90_tst_128x8_splitK_TNT"
ATTENTION = "void cutlass::device_kernel<flash::FlashAttnFwdSm90<int>>(T1::Params)"
COMBINE = "void cutlass::device_kernel<flash::FlashAttnFwdCombine<int>>(T1::Params)"
REDUCE = "void at::native::reduce_kernel<(int)512, at::native::ReduceOp<float, {}<float>>>(T3)"
ARGMAX, SUM = REDUCE.format("at::native::ArgMaxOps"), REDUCE.format("at::native::sum_functor")
CACHE_WRITE = "reshape_and_cache_flash_kernel"


@pytest.fixture
def classify(export, read):
    """Classifies the kernels of one step; gives (category, method) in launch order."""

    def classify_step(*names, **options):
        export.step(DECODE, [(name, 1) for name in names])
        kernels = kernelscope.classify(read(export), **options)
        return list(zip(kernels["category"], kernels["method"], strict=True))

    return classify_step


def test_a_generated_reduction_inside_the_model_is_a_norm(classify):
    decided = classify(GEMM, "triton_per_fused_1", GEMM)
    assert decided[1] == ("norm", "context-norm")


def test_a_generated_reduction_behind_lm_head_is_sampling(classify):
    assert classify(GEMM, "triton_red_fused_0")[1] == ("sampling", "context-sampling")


def test_a_generated_kernel_between_projection_and_cache_write_is_rope(classify):
    decided = classify(GEMM, "triton_red_fused_3", "triton_poi_fused_4", CACHE_WRITE, GEMM)
    assert decided[1] == ("norm", "context-norm")
    assert decided[2] == ("rope", "context-rope")


def test_a_generated_kernel_takes_the_category_of_named_ones_in_the_same_place(classify):
    named = "triton_poi_fused_mul_sigmoid_view_0"
    decided = classify(
        GEMM, ATTENTION, COMBINE, "triton_poi_fused_0", "triton_poi_fused_1",
        GEMM, ATTENTION, COMBINE, named, GEMM,
    )  # fmt: skip
    assert decided[8] == ("activation", "inductor")
    assert decided[3] == ("activation", "context-place")
    # Only the first of several in a row stands in the named kernel's place.
    assert decided[4] == ("elementwise", "context-pointwise")


def test_named_kernels_that_disagree_decide_no_place(classify):
    decided = classify(
        GEMM, "triton_poi_fused_mul_silu_1", GEMM, "triton_poi_fused_rsqrt_mean_2", GEMM,
        "triton_poi_fused_0", GEMM,
    )  # fmt: skip
    assert decided[5] == ("elementwise", "context-pointwise")


def test_arg_max_behind_lm_head_is_sampling_and_a_sum_is_not(classify):
    decided = classify(GEMM, ARGMAX, SUM)
    assert decided[1] == ("sampling", "context-sampling")
    assert decided[2][0] == "reduce"


def test_arg_max_before_the_last_multiply_stays_a_reduction(classify):
    assert classify(ARGMAX, GEMM)[0][0] == "reduce"


def test_without_context_nameless_kernels_stay_unknown(classify):
    decided = classify(GEMM, "triton_poi_fused_0", ARGMAX, context=False)
    assert decided[1] == ("unknown", None)
    assert decided[2][0] == "reduce"


def test_neighbours_are_of_the_same_step(export, read):
    export.step(DECODE, [(GEMM, 1), ("triton_poi_fused_4", 1)])
    export.step(DECODE, [(CACHE_WRITE, 1), (GEMM, 1)])
    kernels = kernelscope.classify(read(export))
    assert kernels["method"][1] == "context-pointwise"


def test_a_split_k_reduction_is_tied_to_the_multiply_before_it(export, read):
    splitk = "void cublasLt::splitKreduce_kernel<(int)32>(T1)"
    export.step(DECODE, [(SPLITK_GEMM, 1), (splitk, 1), (GEMM, 1), (splitk, 1), (splitk, 1)])
    kernels = kernelscope.classify(read(export))
    assert set(kernels.filter(pl.col("short_name") == "splitKreduce_kernel")["category"]) == {
        "splitk_reduce"
    }
    assert kernels["pair"].to_list() == [None, SPLITK_GEMM, None, GEMM, None]


def test_the_order_of_rows_changes_nothing(export, read):
    export.step(DECODE, [(GEMM, 1), ("triton_per_fused_1", 1), (GEMM, 1), (ARGMAX, 1)])
    expected = kernelscope.classify(read(export))
    for seed in range(3):
        assert kernelscope.classify(read(export, shuffle=seed)).equals(expected)


def test_sources_decide_by_name_and_successor(classify):
    """As in fixtures/inductor: a fill before triton_red_fused_1, else a gate."""
    decided = classify(
        "triton_poi_fused_0", "triton_red_fused_1", "triton_poi_fused_2", GEMM,
        "triton_poi_fused_0", "triton_poi_fused_1",
        "triton_red_fused__to_copy_add_fused_add_rms_norm_2", GEMM, inductor_cache=SOURCES,
    )  # fmt: skip
    assert decided[0] == ("copy", "inductor-source")
    assert decided[1] == ("norm", "inductor-source")
    assert decided[2] == ("copy", "inductor-source")
    assert decided[4] == ("activation", "inductor-source")
    assert decided[5] == ("copy", "inductor-source")


def test_sources_that_show_only_arithmetic_leave_the_place_to_decide(tmp_path, classify):
    (tmp_path / "c.py").write_text(
        "triton_poi_fused_4 = async_compile.triton('triton_poi_fused_4', '''tl.load(a)\n"
        "tmp2 = tmp0 * tmp1''')\n    triton_poi_fused_4.run(b, stream=s)\n"
    )
    decided = classify(GEMM, "triton_poi_fused_4", CACHE_WRITE, inductor_cache=tmp_path)
    assert decided[1] == ("rope", "context-rope")
