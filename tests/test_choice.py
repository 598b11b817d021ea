"""Which steps are averaged: a window, the first left out, batch sizes apart; and odd ones named."""

import pytest
from click.testing import CliRunner

import kernelscope
from export_builder import DECODE, ExportBuilder
from kernelscope.cli import main
from kernelscope.step_table import Choice

FOUR = "execute_context_0(0)_generation_4(4)"


@pytest.fixture
def ramp():
    """Six decode steps; step n has one kernel of n + 1 µs."""
    export = ExportBuilder("2024.2")
    for number in range(6):
        export.step(DECODE, [("nvjet_a", number + 1)])
    return export


@pytest.mark.parametrize(
    ("choice", "steps", "mean_us"),
    [
        (Choice(), 6, 3.5),
        (Choice(first=2), 4, 4.5),
        (Choice(last=2), 2, 1.5),
        (Choice(first=1, last=4), 3, 3.0),
        (Choice(skip=5), 1, 6.0),
        (Choice(first=1, skip=2), 4, 4.5),
    ],
)
def test_only_chosen_steps_are_averaged(write, ramp, choice, steps, mean_us):
    summary = kernelscope.summarize(write(ramp), choice=choice)
    decode = summary.phase("decode")
    assert decode.steps == steps
    assert decode.kernel_ms * 1000 == pytest.approx(mean_us)
    left = [one for one in summary.excluded if "asked for" in one.reason]
    assert sum(one.steps for one in left) == 6 - steps


def test_the_window_and_the_skip_reach_the_library(write, ramp):
    path = write(ramp)
    for options, steps in (
        (["--steps", "1:4"], 3),
        (["--steps", "4:"], 2),
        (["--skip-first", "5"], 1),
    ):
        text = CliRunner().invoke(main, ["summarize", str(path), *options]).stdout
        assert f"decode: {steps} step" in text


@pytest.mark.parametrize("window", ["", ":", "5", "a:b", "5:3:1", "-1:2"])
def test_a_window_that_is_none_is_a_usage_error(write, ramp, window):
    done = CliRunner().invoke(main, ["summarize", str(write(ramp)), f"--steps={window}"])
    assert done.exit_code == 2


def test_batches_are_averaged_apart(write, export):
    export.step(DECODE, [("nvjet_a", 2)]).step(FOUR, [("nvjet_a", 8)]).step(
        DECODE, [("nvjet_a", 4)]
    )
    summary = kernelscope.summarize(write(export), split_by_batch=True)
    assert [(p.phase, p.batch, p.steps) for p in summary.phases] == [
        ("decode", 1, 2),
        ("decode", 4, 1),
    ]
    assert summary.phase("decode", batch=1).kernel_ms * 1000 == pytest.approx(3)
    assert summary.phase("decode", batch=4).kernel_ms * 1000 == pytest.approx(8)
    for phase in summary.phases:
        assert summary.rows(phase)["share"].sum() == pytest.approx(1)


def test_without_a_split_batches_share_an_average(summarize, export):
    export.step(DECODE, [("nvjet_a", 2)]).step(FOUR, [("nvjet_a", 8)])
    (decode,) = summarize(export).phases
    assert (decode.batch, decode.steps) == (None, 2)


def test_an_odd_step_is_named_with_what_it_has_more_or_less_of(summarize, export):
    for extra in ([], [("_odd_kernel", 1), ("_odd_kernel", 1)], []):
        export.step(DECODE, [("nvjet_a", 2), *extra])
    (warning,) = [w for w in summarize(export).warnings if "differ" in w]
    assert "1 of 3 decode steps" in warning
    assert "(step 1: 3 instead of 1: +2 _odd_kernel)" in warning


def test_steps_of_other_shapes_are_not_odd(summarize, export):
    export.step(DECODE, [("nvjet_a", 2)]).step(FOUR, [("nvjet_a", 2), ("b", 1)])
    assert not [w for w in summarize(export).warnings if "differ" in w]


def test_graph_launches_without_work_are_counted_in_a_warning(summarize, export):
    for graph in ([("nvjet_a", 2)], [("nvjet_a", 2)], []):
        export.step(DECODE, [("b", 1)], graph=graph)
    export.call("cudaGraphLaunch_v10000", 305)
    (warning,) = [w for w in summarize(export).warnings if "left no work" in w]
    assert warning.startswith("1 of 3 CUDA graph launches")
