"""Layers: a step folded into its repeating structure, on real captures and on built ones."""

import json
import sqlite3
from contextlib import closing

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import kernelscope
from export_builder import DECODE, GRAPH_EXEC, PID, TID, ExportBuilder, global_pid, ns
from exports import exported
from kernelscope.analysis import analyze
from kernelscope.errors import ConfigError
from kernelscope.layers import (
    BEFORE_LAYERS,
    BEHIND_LAYERS,
    KINDS,
    LAYERS,
    NOT_FOLDED,
    NVTX_AT_CAPTURE,
    REPETITION,
    check_config,
    find_layers,
)
from kernelscope.layers.folding import fold_by_repetition
from kernelscope.layers.line import Line
from kernelscope.layers.model import Declined
from kernelscope.layers.units import layer_kind, order_of

LINEAR, FULL, MOE = "linear_attention + mlp", "attention + mlp", "attention + moe"
QWEN = f"16 x (3 x {LINEAR}, 1 x {FULL})"
REAL = {
    "2023.4/qwen35-27b_b1": QWEN,
    "2024.2/qwen35-27b_b1": QWEN,
    "2023.4/qwen35-27b_b8_mixed": QWEN,
    "2023.4/qwen35-27b_b8_tail": QWEN,
    "2023.4/qwen35-27b_eager": QWEN,
    "2025.3/qwen3-30b-a3b_fp8": f"48 x {MOE}",
}


def layers_of(trace):
    """The layers of an export or trace, with its step table."""
    if not isinstance(trace, kernelscope.Trace):
        trace = kernelscope.read_export(trace)
    found = analyze(trace)
    steps = kernelscope.summarize(trace).table("step")
    return find_layers(found.placed, found.names, steps, trace), steps


def line_of(text):
    categories = tuple(text.split())
    return Line(categories, categories)


def folded(text):
    """How a step of these categories folds: the order of its layers, and its outside parts."""
    line = line_of(text)
    fold = fold_by_repetition(line)
    assert not isinstance(fold, Declined), fold
    before, behind = (
        " ".join(line.categories[at] for at in np.flatnonzero(fold.unit == place))
        for place in (-1, -2)
    )
    return order_of(fold.kinds), before, behind


@pytest.fixture(scope="module", params=REAL)
def real(request):
    return (*layers_of(exported(request.param)), REAL[request.param])


def test_every_phase_of_a_real_capture_has_the_layers_of_its_model(real):
    layers, _, order = real
    assert layers.found
    for phase in layers.found:
        assert phase.order == order, phase.evidence
        assert phase.source == REPETITION  # the captures have node rows, but no layer ranges
        assert phase.folded_steps == phase.steps
        assert phase.deviating <= 1
        assert order in phase.evidence


def test_layers_and_outside_add_up_to_the_phase(real):
    layers, steps, _ = real
    complete = steps.filter(pl.col("status") == "complete").group_by("rank", "phase")
    wanted = complete.agg(pl.col("kernels").mean(), kernel_ms=pl.col("kernel_ns").mean() / 1e6)
    for table in (layers.table, layers.kinds):
        sums = table.group_by("rank", "phase").agg(pl.col("kernels", "kernel_ms", "share").sum())
        both = sums.join(wanted, on=["rank", "phase"], suffix="_wanted")
        assert both.height == wanted.height == sums.height
        for row in both.to_dicts():
            assert row["kernels"] == pytest.approx(row["kernels_wanted"], rel=1e-12)
            assert row["kernel_ms"] == pytest.approx(row["kernel_ms_wanted"], rel=1e-12)
            assert row["share"] == pytest.approx(1, rel=1e-12)


def test_tables_follow_their_contracts(real):
    layers, _, _ = real
    assert dict(layers.table.schema) == dict(LAYERS)
    assert dict(layers.kinds.schema) == dict(KINDS)
    keys = ["rank", "phase", "layer_index", "layer_kind"]
    assert layers.table.select(keys).is_duplicated().any() is False
    counts = layers.kinds.filter(pl.col("layers") > 0)
    assert (counts["layer_ms_min"] <= counts["layer_ms_mean"]).all()
    assert (counts["layer_ms_mean"] <= counts["layer_ms_max"]).all()


def test_a_decode_step_of_qwen_by_layer():
    layers, _ = layers_of(exported("2023.4/qwen35-27b_b1"))
    decode = layers.kinds.filter(pl.col("phase") == "decode")
    assert dict(decode.select("layer_kind", "kernels").iter_rows()) == {
        BEFORE_LAYERS: 21,
        LINEAR: 48 * 16,
        FULL: 15 * 14 + 13,  # the last layer has no copy of its gate
        BEHIND_LAYERS: 11,
    }
    behind = decode.filter(pl.col("layer_kind") == BEHIND_LAYERS)
    assert behind["categories"].item() == "norm, copy, gemm, elementwise, sampling"
    index = layers.table.filter(pl.col("phase") == "decode")["layer_index"].to_list()
    assert index == [None, *range(64), None]


def test_replays_recorded_as_a_whole_are_declined():
    layers, _ = layers_of(exported("2024.2/llama-8b_graphlevel"))
    found = {phase.phase: phase for phase in layers.found}
    assert found["mixed"].order == f"32 x {FULL}"  # eager: too many tokens for the graphs
    for phase in ("decode", "prefill"):
        assert found[phase].source is None
        assert "--cuda-graph-trace=node" in found[phase].evidence
        assert layers.table.filter(pl.col("phase") == phase).is_empty()


INPUT, OUTPUT = "copy other elementwise embedding", "norm copy gemm elementwise sampling copy"
ATTENTION = "norm gemm rope kv_cache attention attention_combine gemm"
MLP = "norm gemm activation gemm"
MLA = "norm gemm norm gemm rope gemm kv_cache attention gemm gemm"
INDEXED = (
    "norm gemm norm gemm gemm norm rope kv_cache attention attention rope gemm attention gemm gemm"
)
EXPERTS = "norm gemm moe moe_gemm activation moe_gemm reduce"
SHARED_LAST = f"{EXPERTS} gemm activation gemm gemm activation elementwise"
SHARED_FIRST = "norm gemm activation gemm gemm moe moe_gemm activation moe_gemm reduce"
DELTA_NET = "norm gemm gemm elementwise conv linear_attention norm gemm"
MAMBA = "norm gemm conv linear_attention norm gemm"
EAGER_NORM = "copy elementwise reduce elementwise elementwise copy"


def repeated(*parts):
    return " ".join(part if isinstance(part, str) else " ".join(part) for part in parts)


ARCHITECTURES = {
    "dense": ([f"{ATTENTION} {MLP}"] * 8, f"8 x {FULL}"),
    "two layers": ([f"{ATTENTION} {MLP}"] * 2, f"2 x {FULL}"),
    "dense layers, then experts": (
        [f"{MLA} {MLP}"] * 3 + [f"{MLA} {EXPERTS}"] * 5,
        f"3 x {FULL}, 5 x {MOE}",
    ),
    "sparse attention with its indexer": ([f"{INDEXED} {EXPERTS}"] * 6, f"6 x {MOE}"),
    "shared experts behind, with a gate": (
        ([f"{DELTA_NET} {SHARED_LAST}"] * 3 + [f"{ATTENTION} {SHARED_LAST}"]) * 3,
        "3 x (3 x linear_attention + moe, 1 x attention + moe)",
    ),
    "shared experts in front": ([f"{ATTENTION} {SHARED_FIRST}"] * 6, f"6 x {MOE}"),
    "no feed-forward block": ([MAMBA] * 6, "6 x linear_attention"),
    "activation before the core": (
        [f"norm gemm activation linear_attention norm gemm {EXPERTS}"] * 6,
        "6 x linear_attention + moe",
    ),
    "activation fused into a multiply": ([f"{ATTENTION} norm gemm gemm"] * 6, f"6 x {FULL}"),
    "tensor parallel": (
        [f"{ATTENTION} communication {MLP} communication"] * 6,
        f"6 x {FULL}",
    ),
    "norms around every block": (
        ["norm gemm norm rope kv_cache attention gemm norm norm gemm activation gemm norm"] * 6,
        f"6 x {FULL}",
    ),
    "attention and feed-forward side by side": (
        ["norm gemm rope kv_cache attention gemm gemm activation gemm elementwise"] * 6,
        f"6 x {FULL}",
    ),
    "eager": (
        [f"{EAGER_NORM} gemm rope kv_cache attention gemm {EAGER_NORM} gemm activation gemm copy"]
        * 6,
        f"6 x {FULL}",
    ),
    "nothing known but a norm": (["norm unknown gemm copy"] * 6, "6 x unknown + gemm"),
}


@pytest.mark.parametrize("name", ARCHITECTURES)
def test_architectures(name):
    layers, order = ARCHITECTURES[name]
    assert folded(repeated(INPUT, layers, OUTPUT)) == (order, INPUT, OUTPUT)


def test_an_all_reduce_with_the_norm_in_it_closes_the_layer_before():
    block = "gemm norm rope kv_cache attention gemm communication gemm activation gemm"
    layers = [f"{block} communication"] * 6
    step = repeated(INPUT, "norm", layers, OUTPUT.removeprefix("norm "))
    assert folded(step)[:2] == (f"6 x {FULL}", f"{INPUT} norm")


def test_first_and_last_layer_may_have_other_kernels():
    layers = [f"{ATTENTION} {MLP}"] * 8
    first = layers[0].replace("norm gemm rope", "elementwise gemm rope")
    last = layers[0].replace("rope kv_cache", "kv_cache")
    line = line_of(repeated(INPUT, first, layers[1:-1], last, OUTPUT))
    fold = fold_by_repetition(line)
    assert order_of(fold.kinds) == f"8 x {FULL}"
    assert fold.deviating == 2


@pytest.mark.parametrize("step", ["", INPUT, f"{INPUT} {OUTPUT}", f"{INPUT} {ATTENTION} {MLP}"])
def test_where_nothing_repeats_nothing_is_guessed(step):
    assert isinstance(fold_by_repetition(line_of(step)), Declined)


def test_parts_unlike_each_other_are_no_layers():
    parts = [f"norm gemm attention gemm {'rope ' * 2**number}" for number in range(9)]
    fold = fold_by_repetition(line_of(" ".join(parts)))
    assert isinstance(fold, Declined)
    assert "other kernels" in fold.reason


def test_a_draft_model_stands_behind_the_layers():
    draft = f"embedding norm norm gemm {ATTENTION} {MLP} {OUTPUT}"
    step = repeated(INPUT, [f"{ATTENTION} {MLP}"] * 6, OUTPUT, draft)
    assert folded(step) == (f"6 x {FULL}", INPUT, f"{OUTPUT} {draft}")


def test_an_encoder_of_images_stands_before_the_layers():
    encoder = "conv " + "norm gemm rope attention gemm norm gemm activation gemm " * 3 + INPUT
    assert folded(repeated(encoder, [f"{ATTENTION} {MLP}"] * 6, OUTPUT))[:2] == (
        f"6 x {FULL}",
        encoder,
    )


def test_attention_that_plans_the_step_is_no_layer():
    plan = f"attention copy {INPUT}"
    assert folded(repeated(plan, [f"{ATTENTION} {MLP}"] * 6, OUTPUT))[1] == plan


def test_pipeline_stages_have_layers_of_their_own():
    layers = [f"{ATTENTION} {MLP}"] * 6
    assert folded(repeated(INPUT, layers, "communication"))[0] == f"6 x {FULL}"
    assert folded(repeated("communication", layers, OUTPUT))[0] == f"6 x {FULL}"


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 10**6), st.sampled_from(
    ("elementwise", "copy", "other", "unknown", "norm", "reduce")
)), max_size=6))  # fmt: skip
def test_a_few_odd_kernels_change_no_layer(odd):
    layers = ([f"{DELTA_NET} {MLP}"] * 3 + [f"{ATTENTION} {MLP}"]) * 8
    step = repeated(INPUT, layers, OUTPUT).split()
    for place, category in odd:
        step.insert(place % len(step), category)
    fold = fold_by_repetition(line_of(" ".join(step)))
    assert order_of(fold.kinds) == f"8 x (3 x {LINEAR}, 1 x {FULL})"
    assert fold.unit.shape == (len(step),)
    # A kernel at a seam can make the layers on both sides of it deviate.
    assert fold.deviating <= 2 * len(odd) + 1


@pytest.mark.parametrize(
    ("categories", "kind"),
    [
        (f"{ATTENTION} {MLP}", FULL),
        (f"{DELTA_NET} {EXPERTS}", "linear_attention + moe"),
        ("norm gemm conv gemm norm gemm activation gemm", "conv + mlp"),
        ("norm gemm attention activation elementwise gemm", "attention"),  # a gate, no block
        ("norm gemm activation gemm", "mlp"),
        ("norm rope sampling norm", "rope + sampling"),
        ("norm copy", "norm + copy"),
    ],
)
def test_layers_are_named_by_what_is_in_them(categories, kind):
    assert layer_kind(tuple(categories.split())) == kind


def test_orders_are_folded():
    assert order_of(["a", "a", "b"] * 2) == "2 x (2 x a, 1 x b)"
    assert order_of(["a", "b", "b"]) == "1 x a, 2 x b"
    assert order_of([]) == ""


# Built exports: real kernel names, so that the rules decide what they are.
NAMES = {
    "norm": "void vllm::rms_norm_kernel<float>()",
    "gemm": "nvjet_tst_64x8_64x16_4x1_v_bz_TNT",
    "attention": "void flash_fwd_kernel<>()",
    "activation": "void vllm::act_and_mul_kernel<float>()",
    "other": "void vllm::prepare_inputs()",
}
BLOCK = "norm gemm attention gemm norm gemm activation gemm"


def kernels(text, duration=1):
    return [(NAMES.get(name, name), duration) for name in text.split()]


def decode(export, layers=4, **options):
    body = kernels(f"{BLOCK} " * layers)
    return export.step(
        DECODE, kernels("other"), late=kernels("norm gemm"), **{"graph": body} | options
    )


def test_a_built_step_folds(read):
    layers, _ = layers_of(read(decode(decode(ExportBuilder("2024.2")))))
    assert layers.found[0].order == f"4 x {FULL}"
    assert layers.table.select("layer_index", "kernels").rows() == [
        (None, 1), (0, 8), (1, 8), (2, 8), (3, 8), (None, 2),
    ]  # fmt: skip
    assert layers.table["kernel_ms"][1] == pytest.approx(0.008)


def test_equal_layers_on_each_rank(read):
    export = ExportBuilder("2024.2")
    for pid, tid in ((1, 11), (2, 22)):
        for _ in range(2):
            decode(export, pid=pid, tid=tid)
    layers, _ = layers_of(read(export))
    assert [(phase.rank, phase.layers) for phase in layers.found] == [(0, 4), (1, 4)]
    assert layers.kinds["rank"].to_list() == [0] * 3 + [1] * 3


def test_steps_that_fold_otherwise_keep_their_time_in_a_row_of_their_own(read):
    export = ExportBuilder("2024.2")
    for _ in range(3):
        decode(export)
    decode(export, layers=6)
    layers, _ = layers_of(read(decode(export)))
    (phase,) = layers.found
    assert (phase.steps, phase.folded_steps) == (5, 4)
    assert "do not fold so: 1 of 5" in phase.evidence
    left = layers.table.filter(pl.col("layer_kind") == NOT_FOLDED)
    assert left["kernels"].to_list() == [51 / 5]
    assert layers.table["kernels"].sum() == pytest.approx((4 * 35 + 51) / 5)


def test_the_order_of_rows_does_not_matter(write):
    export = decode(decode(ExportBuilder("2024.2")))
    plain, _ = layers_of(write(export))
    shuffled, _ = layers_of(write(export, shuffle=5, shift_ns=10**18))
    assert plain.table.equals(shuffled.table)


def test_a_trace_without_steps_has_no_layers(read):
    export = ExportBuilder("2024.2")
    for at, (name, _) in enumerate(kernels(BLOCK * 3)):
        export.kernel(name, 10 + at, 1)
    layers, _ = layers_of(read(export))
    assert layers.table.is_empty()
    assert dict(layers.table.schema) == dict(LAYERS)
    assert dict(layers.kinds.schema) == dict(KINDS)


# Graph nodes: when each was made, as the exporter of that time wrote it.
NODE_TABLES = {"2023.4": "CUDA_GRAPH_EVENTS", "2024.2": "CUDA_GRAPH_NODE_EVENTS"}
CAPTURED = 5


def add_nodes(path, version, rows):
    """Rows of (node, original node or None, µs, thread id) in the table of that version."""
    with closing(sqlite3.connect(path)) as database, database:
        for table in {"CUDA_GRAPH_EVENTS", NODE_TABLES[version]}:
            is_nodes = table == NODE_TABLES[version]
            extra = (
                "graphNodeId INTEGER, originalGraphNodeId INTEGER"
                if is_nodes
                else "graphId INTEGER"
            )
            database.execute(
                f"CREATE TABLE {table} (start INTEGER NOT NULL, end INTEGER NOT NULL,"
                f" eventClass INTEGER, globalTid INTEGER, nameId INTEGER, {extra})"
            )
        database.executemany(
            f"INSERT INTO {NODE_TABLES[version]} VALUES (?, ?, 77, ?, 0, ?, ?)",
            [
                (ns(at), ns(at), global_pid(PID) | tid, node, original)
                for node, original, at, tid in rows
            ],
        )


def captured(version, write, label="model.layers.{}.{}", *, cycle=False, layers=4, thread=TID):
    """Decode steps whose graph was captured, under layer ranges, before the first step.

    Node n of the replayed graph is a clone of a clone of the one captured.
    """
    export = ExportBuilder(version)
    ranges, nodes, at = [], [], 1.0
    for layer in range(layers):
        begin = at
        for part, count in (("input_layernorm", 1), ("self_attn", 3), ("mlp", 4)):
            ranges.append((label.format(layer, part), at, at + count - 0.1))
            nodes += [at + place + 0.5 for place in range(count)]
            at += count
        if "{}.{}" in label:
            ranges.append((f"model.layers.{layer}", begin, at - 0.05))
    for name, begin, end in ranges:
        export.range(name, begin, end)
    for number in range(3):
        decode(export, layers, at=at + 100 * (number + 1))
    path = write(export)
    rows = []
    for number, moment in enumerate(nodes):
        last, middle, first = (graph << 32 | number for graph in (GRAPH_EXEC, CAPTURED, 9))
        rows += [
            (first, None, moment, thread),
            (middle, None, 90, thread),
            (last, None, 91, thread),
        ]
        rows += [(middle, first, 90, thread), (last, middle, 91, thread)]
        rows += [(first, last, 92, thread)] * cycle
    add_nodes(path, version, rows)
    return path


@pytest.mark.parametrize("version", NODE_TABLES)
@pytest.mark.parametrize("cycle", [False, True])
def test_ranges_open_at_graph_capture_name_the_layers(version, write, cycle):
    layers, _ = layers_of(captured(version, write, cycle=cycle))
    (phase,) = layers.found
    assert phase.source == NVTX_AT_CAPTURE
    assert phase.kinds == (("self_attn + mlp", 4),)
    assert "NVTX" in phase.evidence
    inside = layers.table.drop_nulls("layer_index")
    assert inside["layer_name"].to_list() == [f"model.layers.{layer}" for layer in range(4)]
    assert inside["kernels"].to_list() == [8] * 4
    assert layers.table["kernels"].sum() == 35
    assert set(layers.table["source"]) == {NVTX_AT_CAPTURE}


@pytest.mark.parametrize("label", ["layer_{}", "{{'Module': 'decoder.h.{}', 'Inputs': []}}"])
def test_layer_ranges_without_parts_are_named_by_their_kernels(write, label):
    layers, _ = layers_of(captured("2024.2", write, label))
    (phase,) = layers.found
    assert (phase.source, phase.kinds) == (NVTX_AT_CAPTURE, ((FULL, 4),))


@pytest.mark.parametrize(
    "options", [{"label": "no number here"}, {"label": "batch{}"}, {"thread": TID + 1}]
)
def test_ranges_that_name_no_layers_are_not_used(write, options):
    layers, _ = layers_of(captured("2024.2", write, **options))
    assert (layers.found[0].source, layers.found[0].layers) == (REPETITION, 4)


@pytest.mark.parametrize("version", NODE_TABLES)
def test_node_rows_are_read_from_the_table_that_has_them(version, write):
    nodes = kernelscope.read_export(captured(version, write)).graph_nodes
    assert nodes.height == 32 * 5
    assert nodes["original_node"].null_count() == 32 * 3
    assert nodes["process"].unique().to_list() == [global_pid(PID)]


def test_no_node_rows_is_no_error(read):
    assert read(decode(ExportBuilder("2024.2"))).graph_nodes.is_empty()


# Configurations.
@pytest.fixture
def config(tmp_path):
    def write_config(content):
        path = tmp_path / "config.json"
        path.write_text(content if isinstance(content, str) else json.dumps(content), "utf-8")
        return path

    return write_config


@pytest.fixture(scope="module")
def qwen():
    return layers_of(exported("2023.4/qwen35-27b_b8_mixed"))[0]


TYPES = (["linear_attention"] * 3 + ["full_attention"]) * 16


@pytest.mark.parametrize(
    "content",
    [
        {"num_hidden_layers": 64},
        {"text_config": {"num_hidden_layers": 64, "full_attention_interval": 4}},
        {"num_hidden_layers": 64, "layer_types": TYPES},
        {"vision_config": {"num_hidden_layers": 5}, "text_config": {"layer_types": TYPES}},
    ],
)
def test_a_configuration_that_agrees(qwen, config, content):
    check = check_config(qwen, config(content))
    assert check.agrees
    assert "agrees: 64 layers" in check.sentence


@pytest.mark.parametrize(
    ("content", "says"),
    [
        ({"num_hidden_layers": 62}, "has 62 layers, but the trace shows 64 in decode steps"),
        ({"num_hidden_layers": 64, "full_attention_interval": 8}, "56 with linear attention"),
    ],
)
def test_a_configuration_that_disagrees(qwen, config, content, says):
    check = check_config(qwen, config(content))
    assert not check.agrees
    assert says in check.sentence
    assert check.sentence.endswith(".")


def test_a_configuration_without_layers_to_compare(read, config):
    layers, _ = layers_of(read(ExportBuilder("2024.2").step(DECODE, kernels("norm gemm"))))
    check = check_config(layers, config({"num_hidden_layers": 4}))
    assert not check.agrees
    assert "none were found" in check.sentence


def test_pipeline_stages_are_added_up(read, config):
    export = ExportBuilder("2024.2")
    for pid, tid, count in ((1, 11, 4), (2, 22, 3)):
        for _ in range(2):
            decode(export, count, pid=pid, tid=tid)
    layers, _ = layers_of(read(export))
    assert check_config(layers, config({"num_hidden_layers": 7})).agrees
    assert not check_config(layers, config({"num_hidden_layers": 8})).agrees


@pytest.mark.parametrize("content", ["{", "[]", "{}", '{"num_hidden_layers": true}', "\x00"])
def test_configurations_that_cannot_be_used(qwen, config, content):
    with pytest.raises(ConfigError) as caught:
        check_config(qwen, config(content))
    assert "config.json" in str(caught.value)


def test_a_missing_configuration(qwen, tmp_path):
    with pytest.raises(ConfigError, match="cannot be read"):
        check_config(qwen, tmp_path / "none.json")
