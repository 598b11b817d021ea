"""What a step label says: vLLM's, TensorRT-LLM's and SGLang's."""

import polars as pl
import pytest

import kernelscope
from export_builder import DECODE
from kernelscope import frames
from kernelscope.steps.labels import ENGINES, VLLM, parse_labels


def parse(*labels, threads=None, engine=VLLM):
    count = len(labels)
    ranges = pl.DataFrame(
        {
            "start_ns": range(count),
            "end_ns": range(1, count + 1),
            "process": [0] * count,
            "thread": threads or [1] * count,
            "label": labels,
        },
        schema=dict(frames.RANGES),
    )
    return parse_labels(ranges, engine)


@pytest.mark.parametrize(
    ("context", "generation", "phase"),
    [
        ("1(512)", "0(0)", "prefill"),
        ("0(0)", "1(1)", "decode"),
        ("2(1024)", "6(6)", "mixed"),
        ("0(0)", "0(0)", "empty"),
    ],
)
def test_the_phase_follows_from_who_is_in_the_step(context, generation, phase):
    steps = parse(f"execute_context_{context}_generation_{generation}")
    assert steps["phase"].to_list() == [phase]


def test_the_plain_form_gives_requests_and_tokens():
    (step,) = parse("execute_context_2(1024)_generation_6(7)").to_dicts()
    assert step["context_requests"] == 2
    assert step["context_tokens"] == 1024
    assert step["generation_requests"] == 6
    assert step["generation_tokens"] == 7


def test_the_plain_form_does_not_know_lengths():
    (step,) = parse(DECODE).to_dicts()
    assert step["generation_kv_tokens"] is None
    assert step["generation_token_squares"] is None


def test_the_detailed_form_gives_sums_over_requests():
    label = (
        "execute_260_context_1(sq256sk256sqsq65536sqsk65536)_generation_4(sq4sk2060sqsq4sqsk2060)"
    )
    (step,) = parse(label).to_dicts()
    assert step["phase"] == "mixed"
    assert (step["context_requests"], step["context_tokens"]) == (1, 256)
    assert (step["generation_requests"], step["generation_tokens"]) == (4, 4)
    assert step["context_kv_tokens"] == 256
    assert step["generation_kv_tokens"] == 2060
    assert step["generation_token_squares"] == 4


@pytest.mark.parametrize("suffix", ["", " ", "_batch3", "(x)"])
def test_unknown_suffixes_are_ignored(suffix):
    assert parse(DECODE + suffix)["phase"].to_list() == ["decode"]


@pytest.mark.parametrize(
    "label",
    [
        "",
        "execute_model",
        "execute_context_1(512)",
        "execute_context_a(1)_generation_0(0)",
        "execute_context_-1(512)_generation_0(0)",
        f" {DECODE}",
        f"re{DECODE}",
        "gpu_model_runner: forward",
        "forward/decode-32",
        "execute_context_99999999999999999999(1)_generation_0(0)",
    ],
)
def test_every_other_range_is_no_step(label):
    assert parse(label).is_empty()


def test_steps_are_numbered_by_thread_and_time():
    steps = parse(DECODE, DECODE, DECODE, threads=[2, 1, 2])
    assert steps["thread"].to_list() == [1, 2, 2]
    assert steps["start_ns"].to_list() == [1, 0, 2]
    assert steps["step"].to_list() == [0, 1, 2]


def test_the_frame_follows_its_contract():
    assert dict(parse(DECODE).schema) == dict(frames.STEPS)
    assert dict(parse("nothing").schema) == dict(frames.STEPS)


TENSORRT_LLM, SGLANG = ENGINES[1:]


def counts(engine, label):
    (step,) = parse(label, engine=engine).to_dicts()
    sides = ("context_requests", "context_tokens", "generation_requests", "generation_tokens")
    return (step["phase"], *(step[side] for side in sides))


@pytest.mark.parametrize(
    ("label", "expected"),
    [
        (" 123: 1 ctx reqs, 512 ctx tokens, 4 gen reqs", ("mixed", 1, 512, 4, None)),
        (" 7: 2 ctx reqs, 0 gen reqs", ("prefill", 2, None, 0, None)),
        (": 0 ctx reqs, 8 gen reqs", ("decode", 0, None, 8, None)),
        (" 9: 0 ctx reqs, 0 ctx tokens, 0 gen reqs", ("empty", 0, 0, 0, None)),
    ],
)
def test_tensorrt_llm_gives_requests_and_sometimes_tokens(label, expected):
    assert counts(TENSORRT_LLM, f"[Executor] _forward_step{label}") == expected


@pytest.mark.parametrize(
    ("label", "expected"),
    [
        ("step[DECODE bs=4]", ("decode", 0, 0, 4, None)),
        ("step[TARGET_VERIFY bs=4]", ("decode", 0, 0, 4, None)),
        ("step[EXTEND bs=1 toks=512]", ("prefill", 1, 512, 0, 0)),
        ("step[EXTEND bs=1]", ("prefill", 1, None, 0, 0)),
        ("step[MIXED bs=5]", ("mixed", None, None, None, None)),
        (
            "step[MIXED bs=2 c=1 g=1 c_sq=5 c_sk=8 c_sqsq=2 c_sqsk=4 g_sq=1 g_sk=12 g_sqsq=1]",
            ("mixed", 1, 5, 1, 1),
        ),
        ("step[IDLE bs=0]", ("empty", 0, 0, 0, 0)),
    ],
)
def test_sglang_gives_the_mode_and_the_batch_size(label, expected):
    assert counts(SGLANG, label) == expected


def test_sglang_with_sums_gives_lengths():
    (step,) = parse("step[DECODE bs=2 g_sqsq=2 g_sqsk=30 g_sk=30]", engine=SGLANG).to_dicts()
    assert (step["generation_kv_tokens"], step["generation_token_squares"]) == (30, 2)
    label = "step[EXTEND bs=2 toks=12 c_sqsq=80 c_sqsk=120 c_sk=20]"
    (step,) = parse(label, engine=SGLANG).to_dicts()
    assert step["context_kv_tokens"] == 20


@pytest.mark.parametrize(
    "label", ["step 3", "step[3]", "step[DRAFT_EXTEND bs=4]", "step[FOO bs=1]"]
)
def test_other_ranges_are_no_steps_of_sglang(label):
    assert parse(label, engine=SGLANG).is_empty()


@pytest.mark.parametrize(
    ("label", "engine", "phase"),
    [
        (DECODE, "vLLM", "decode"),
        (
            "[Executor] _forward_step 3: 0 ctx reqs, 0 ctx tokens, 4 gen reqs",
            "TensorRT-LLM",
            "decode",
        ),
        ("step[EXTEND bs=1 toks=512]", "SGLang", "prefill"),
    ],
)
def test_the_evidence_names_the_engine(label, engine, phase, read, export):
    export.step(label, [("nvjet_a", 5)]).step(label, [("nvjet_a", 5)])
    steps = kernelscope.split_steps(read(export))
    assert (steps.method, steps.evidence) == (
        "nvtx",
        f"2 {engine} step labels on 1 worker thread(s)",
    )
    assert steps.frame["phase"].to_list() == [phase] * 2


def test_of_several_engines_labels_vllms_count(read, export):
    # C23: another framework's outer ranges must not double the steps.
    for number in range(3):
        export.range("step[DECODE bs=1]", 95 + 100 * number, 190 + 100 * number)
        export.step(DECODE, [("nvjet_a", 5)])
    steps = kernelscope.split_steps(read(export))
    assert steps.frame["label"].to_list() == [DECODE] * 3
