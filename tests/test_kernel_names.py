"""What is read out of names: base names, normalised names, operations, mangled symbols."""

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kernelscope.kernel_names import base_name, name_texts, operation_names
from kernelscope.mangled_names import demangle

BASE_NAMES = {
    "_fwd_kernel": "_fwd_kernel",
    "nvjet_sm90_tst_64x8_64x16_splitK_TNT": "nvjet_sm90_tst_64x8_64x16_splitK_TNT",
    "void vllm::rms_norm_kernel<c10::Half, 8>(c10::Half*, float)": "rms_norm_kernel",
    "compute_arg_sorts(int const*, int*)": "compute_arg_sorts",
    "vllm::gptq::shuffle_4bit_kernel(unsigned int*, int, int)": "shuffle_4bit_kernel",
    "std::enable_if<!(false), void>::type internal::gemvx::kernel<int, float, 7>(int)": "kernel",
    "std::enable_if<(((8)>(0)))&&(a::b<c>::exists), void>::type vllm::norm_kernel<c, 8>(c*)": (
        "norm_kernel"
    ),
    "void <unnamed>::softmax_warp_forward<float, (int)2, (bool)1>(T1 *)": "softmax_warp_forward",
    "void at::native::(anonymous namespace)::cunn_SoftMaxForward<4>(int)": "cunn_SoftMaxForward",
    "void at::native::gather_kernel<128, void at::f(at::T&)::[lambda() (instance 1)]"
    "::operator ()() const::[lambda(int) (instance 1)]>(int)": "gather_kernel",
    "unsigned int scan<int>(int)": "scan",
    "void outer(int)::{lambda()#1}::operator()()": "outer",
    "_fwd_kernel_0d1d2d3de4c": "_fwd_kernel",
    "void kernel<int, (unsigned long)4, cut off here": "kernel",
    "ns::pair<int, long> ns::kernel<x->y, cut off here": "kernel",
    "_ZN4vllm15rms_norm_kernelIN3c104HalfELi16EEEvPT_": "rms_norm_kernel",
}


@pytest.mark.parametrize("name", BASE_NAMES)
def test_base_name(name: str) -> None:
    assert base_name(name) == BASE_NAMES[name]


def texts(name: str | None, short_name: str | None = None) -> dict[str, str | None]:
    schema = {"name": pl.String, "short_name": pl.String}
    frame = pl.DataFrame({"name": [name], "short_name": [short_name]}, schema=schema)
    return name_texts(frame).row(0, named=True)


def test_both_demanglers_give_the_same_full_name() -> None:
    by_nsys = (
        "void a::k<(int)4, (bool)1, (unsigned long)2, a::<unnamed>::F, b<c<(int)-1>>>(T1 *, T2 &)"
    )
    by_cxxfilt = "void a::k<4, true, 2ul, a::(anonymous namespace)::F, b<c<-1> > >(T1*, T2&)"
    assert texts(by_nsys)["full"] == texts(by_cxxfilt)["full"]
    assert texts(by_nsys)["full"] == "void a::k<4, true, 2, a::F, b<c<-1>>>(T1*, T2&)"


def test_the_short_name_stands_in_for_a_missing_name() -> None:
    assert texts(None, "Kernel2") == {"base": "Kernel2", "full": "Kernel2", "inductor": None}
    assert texts("void a::b<int>()", "Kernel2")["base"] == "b"
    assert texts(None, None) == {"base": None, "full": None, "inductor": None}


def test_empty_frames_keep_their_columns() -> None:
    schema = {"name": pl.String, "short_name": pl.String}
    expected = {"base": pl.String, "full": pl.String, "inductor": pl.String}
    assert dict(name_texts(pl.DataFrame(schema=schema)).schema) == expected


OPERATIONS = {
    "triton_poi_fused_mul_silu_slice_1": "poi mul silu slice",
    "triton_red_fused__to_copy_add_fused_add_rms_norm_3": "red _to_copy add fused_add_rms_norm",
    "triton_red_fused__to_copy_add_copy__fused_add_rms_norm_5": (
        "red _to_copy add copy fused_add_rms_norm"
    ),
    "triton_per_fused__softmax_mul": "per _softmax mul",
    "triton_tem_fused_addmm_relu_t_5": "tem addmm relu t",
    "triton_fused_add_2": "poi add",
    "triton_poi_fused_0": "poi",
    "triton_poi_fused_moe_forward_3": "poi moe_forward",
    "triton_scale_swizzle": None,
    "fused_moe_kernel": None,
}


@pytest.mark.parametrize("name", OPERATIONS)
def test_operations(name: str) -> None:
    assert texts(name)["inductor"] == OPERATIONS[name]


def test_operations_are_listed_once() -> None:
    names = operation_names()
    assert len(set(names)) == len(names)


DEMANGLED = {
    "_Z17compute_arg_sortsPKiS0_PiS1_S1_ii": "compute_arg_sorts",
    "_ZN4vllm15rms_norm_kernelIN3c104HalfELi16ELi2ELb0EEEvPT_PKS3_lllllS6_fii": (
        "vllm::rms_norm_kernel<c10::Half, 16, 2, false>"
    ),
    "_ZN7cutlass13device_kernelIN5flash19FlashAttnFwdCombineIN4cute5tupleIJNS3_1CILi16EEENS5_ILi64EE"
    "EEEELi4ELb0ENS_10bfloat16_tEfEEEEvNT_6ParamsE": (
        "cutlass::device_kernel<flash::FlashAttnFwdCombine<cute::tuple<cute::C<16>, cute::C<64>>, "
        "4, false, cutlass::bfloat16_t, float>>"
    ),
    "_ZN39_GLOBAL__N__ef64e897_7_topk_cu_e84ba85228topk_transform_decode_kernelEPiPKil": (
        "(anonymous namespace)::topk_transform_decode_kernel"
    ),
    "_ZN2at6native14tinygemm_chunkINS0_10ALayout_RMILNS0_14KReductionTypeE0EEEEEvPi": (
        "at::native::tinygemm_chunk<at::native::ALayout_RM<(at::native::KReductionType)0>>"
    ),
    "_Z1fIXadL_ZN1a1bIiEEvPT_EEEvv": "f<&a::b<int>>",
    "_Z1gIA4_iPFviEM1aiDF16_St4pairIihEEvT_": (
        "g<int[4], void (int)*, int a::*, _Float16, std::pair<int, unsigned char>>"
    ),
    "_ZN1a1bILin4EKcVfEEvv": "a::b<-4, char const, float volatile>",
    "_ZZN1a1bEvENKUlvE_clEv": "a::b::{lambda}::operator()",
    "_ZN1aC1Ev": "a::{ctor}",
    "plain_name": "plain_name",
}


@pytest.mark.parametrize("symbol", DEMANGLED)
def test_demangle(symbol: str) -> None:
    assert demangle(symbol) == DEMANGLED[symbol]


def test_what_cannot_be_decoded_is_answered_in_outline() -> None:
    expression = "_ZN4vllm9my_kernelIXgtT_Li4EN3c104HalfEEEvv"
    assert demangle(expression) == "vllm::my_kernel<c10, Half>"
    assert base_name(expression) == "my_kernel"


def test_a_symbol_that_is_cut_off_keeps_its_name() -> None:
    assert base_name("_ZN4vllm15rms_norm_kernelIN3c104Ha") == "rms_norm_kernel"


@pytest.mark.parametrize(
    "symbol", ["_Z", "_Z99999999999a", "_ZS_", "_ZN", "_Z" + "N1a" * 4000, "_ZT_"]
)
def test_nonsense_symbols_end(symbol: str) -> None:
    assert isinstance(demangle(symbol), str)


def test_nesting_without_end_is_bounded() -> None:
    assert demangle("_Z1f" + "IP" * 5000).startswith("f")


@given(st.text(alphabet="NIESTZ_LXJKPFAMD0123456789abcijv", max_size=80))
def test_any_symbol_is_answered(tail: str) -> None:
    assert isinstance(demangle("_Z" + tail), str)


@given(st.text(alphabet="ab:<>(), *&[]{}#-", max_size=60))
def test_any_name_has_texts(name: str) -> None:
    assert set(texts(name)) == {"base", "full", "inductor"}
