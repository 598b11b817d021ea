"""What a vLLM step label says."""

import polars as pl
import pytest

from export_builder import DECODE
from kernelscope import frames
from kernelscope.steps.labels import parse_labels


def parse(*labels, threads=None):
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
    return parse_labels(ranges)


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
