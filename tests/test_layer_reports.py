"""Layers in the reports: of a real step, against a configuration, and where there are none."""

import json

import pytest
from click.testing import CliRunner

from exports import exported
from kernelscope.cli import main

QWEN = exported("2023.4/qwen35-27b_b1")
CONFIG = {"text_config": {"num_hidden_layers": 64, "full_attention_interval": 4}}


def run(*arguments):
    return CliRunner().invoke(main, ["summarize", *map(str, arguments)])


@pytest.fixture
def config(tmp_path):
    def write(**changes):
        path = tmp_path / "config.json"
        path.write_text(json.dumps({"text_config": CONFIG["text_config"] | changes}))
        return path

    return write


def test_a_hybrid_model_is_shown_by_kinds_of_layer():
    text = run(QWEN, "--by", "layer", "--phase", "decode").stdout
    assert "16 x (3 x linear_attention + mlp" in text
    assert "48 x 0.22" in text


def test_layers_add_up_to_the_phase():
    data = json.loads(run(QWEN, "--by", "layer", "--format", "json").stdout)
    for phase in data["phases"]:
        for rows in (phase["layers"], phase["layer_kinds"]):
            assert sum(row["kernel_ms"] for row in rows) == pytest.approx(phase["kernel_ms"])
            assert sum(row["share"] for row in rows) == pytest.approx(1)
        assert len([row for row in phase["layers"] if row["layer_index"] is not None]) == 64


def test_csv_has_a_row_per_layer():
    lines = run(QWEN, "--by", "layer", "--phase", "decode", "--format", "csv").stdout.splitlines()
    assert len(lines) == 1 + 64 + 2  # heading, layers, before and behind them


def test_a_configuration_that_agrees_is_a_note(config):
    done = run(QWEN, "--by", "layer", "--model-config", config())
    assert "note: The configuration agrees: 64 layers" in done.stdout


def test_a_configuration_that_disagrees_is_a_warning(config):
    other = config(num_hidden_layers=48)
    done = run(QWEN, "--by", "layer", "--format", "json", "--model-config", other)
    data = json.loads(done.stdout)
    assert any("48" in warning for warning in data["warnings"])


def test_a_configuration_that_cannot_be_read_is_one_line(tmp_path):
    done = run(QWEN, "--by", "layer", "--model-config", tmp_path / "none.json")
    assert done.exit_code == 1
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize(
    "options", [["--model-config", "x.json"], ["--by", "layer", "--split-by", "batch"]]
)
def test_options_that_do_not_go_together_are_usage_errors(options):
    assert run(QWEN, *options).exit_code == 2


def test_opaque_replays_have_no_layers_and_say_so():
    trace = exported("2024.2/llama-8b_graphlevel")
    text = run(trace, "--by", "layer", "--phase", "decode").stdout.replace("\n", " ")
    assert "no layers found in decode steps" in text
    assert "--cuda-graph-trace=node" in text
