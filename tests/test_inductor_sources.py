"""Inductor's generated sources: what they say of kernels whose names say nothing."""

from pathlib import Path

import polars as pl
import pytest

from kernelscope.errors import SourcesNotFound
from kernelscope.inductor_sources import SCHEMA, read_inductor_sources

REAL = Path(__file__).parent.parent / "fixtures" / "inductor"


def graph(*kernels, calls=None):
    """A generated file: (name, comment, body) of its kernels, and the calls to them in order."""
    lines = []
    for name, comment, body in kernels:
        lines += [
            comment,
            f"{name} = async_compile.triton('{name}', '''{body}''', device_str='cuda')",
        ]
    lines.append("def call(args):")
    order = [name for name, *_ in kernels] if calls is None else calls
    lines += [f"    {name}.run(buf0, 1, stream=stream0)" for name in order]
    return "\n".join(lines) + "\n"


UNKNOWN = "# Unsorted Source Nodes: [], Original ATen: []"


@pytest.fixture
def read(tmp_path):
    def read_files(*texts):
        for number, text in enumerate(texts):
            (tmp_path / f"c{number}.py").write_text(text)
        return {(name, after): ops for name, after, ops in read_inductor_sources(tmp_path).rows()}

    return read_files


def test_the_operations_that_inductor_states_are_taken(read):
    comment = "# Source Nodes: [silu, mul], Original ATen: [aten.silu, vllm_ir.fused_add_rms_norm]"
    found = read(graph(("triton_poi_fused_9", comment, "tl.load(x)")))
    assert found == {("triton_poi_fused_9", None): "fused_add_rms_norm_silu"}


@pytest.mark.parametrize(
    ("body", "operations"),
    [
        ("tmp0 = tl.full([1], 0.0)\ntl.store(out, tmp0)", "full"),
        ("tmp0 = tl.load(in0)\ntl.store(out, tmp0)", "clone"),
        ("tmp0 = tl.load(in0)\ntmp2 = tl.sigmoid(tmp1)\ntmp3 = tmp0 * tmp2", "mul_sigmoid"),
        ("tmp0 = tl.load(in0)\ntmp1 = tmp0 * tmp0\ntmp2 = tl.sum(tmp1, 1)\nlibdevice.rsqrt(tmp2)",
         "mul_rsqrt_sum"),
    ],
)  # fmt: skip
def test_where_inductor_states_none_the_source_is_read(read, body, operations):
    assert read(graph(("triton_poi_fused_0", UNKNOWN, body))) == {
        ("triton_poi_fused_0", None): operations
    }


def test_kernels_of_one_name_are_told_apart_by_their_successors(read):
    fill, gate = "tl.full([1], 0.0)", "tl.load(a)\ntl.sigmoid(tmp1)"
    found = read(
        graph(("triton_poi_fused_0", UNKNOWN, fill), ("triton_red_fused_1", UNKNOWN, "tl.load(a)")),
        graph(("triton_poi_fused_0", UNKNOWN, gate), ("triton_poi_fused_1", UNKNOWN, fill)),
    )
    assert found["triton_poi_fused_0", "triton_red_fused_1"] == "full"
    assert found["triton_poi_fused_0", "triton_poi_fused_1"] == "sigmoid"


def test_a_folder_that_is_not_there_is_named(tmp_path):
    with pytest.raises(SourcesNotFound, match=r"There is no folder .*nowhere"):
        read_inductor_sources(tmp_path / "nowhere")


def test_a_folder_without_generated_kernels_is_named(tmp_path):
    (tmp_path / "other.py").write_text("print('hello')\n")
    with pytest.raises(SourcesNotFound, match="No file under"):
        read_inductor_sources(tmp_path)


def test_nothing_in_the_files_is_run(tmp_path, read):
    mark = tmp_path / "mark"
    read(f"open({str(mark)!r}, 'w')\n" + graph(("triton_poi_fused_0", UNKNOWN, "tl.load(a)")))
    assert not mark.exists()


def test_real_sources_say_what_the_nameless_kernels_do():
    """Read by hand in the files: the model opens with a fill and the first norm; behind full
    attention comes the output gate (sigmoid, multiply) and a fill."""
    found = read_inductor_sources(REAL)
    assert found.schema == pl.Schema(SCHEMA)
    known = {(name, after): ops for name, after, ops in found.rows()}
    assert known["triton_poi_fused_0", "triton_red_fused_1"] == "full"
    assert known["triton_red_fused_1", "triton_poi_fused_2"] == "mul_rsqrt_sum_where"
    assert known["triton_poi_fused_0", "triton_poi_fused_1"] == "mul_sigmoid"
    assert {ops for (name, _), ops in known.items() if name == "triton_poi_fused_5"} == {"clone"}
