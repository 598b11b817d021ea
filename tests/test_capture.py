"""A capture: command lines by version, a whole run with stand-ins, and each way to fail."""

import dataclasses
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
import tokenizers
import tokenizers.models
import tokenizers.pre_tokenizers
from click.testing import CliRunner

import exports
import stand_ins
from kernelscope.capture import CaptureConfig, capture, dry_run, profiling_of
from kernelscope.capture.config import MODES
from kernelscope.capture.failures import failure
from kernelscope.capture.process import stage_of
from kernelscope.capture.prompts import make_prompts
from kernelscope.capture.versions import parse_version
from kernelscope.cli import main
from kernelscope.commands.capture import MODES as COMMAND_MODES
from kernelscope.errors import CaptureError, MissingExtra, RunError
from kernelscope.runs import analyze_run, read_run

EXPORT = "2024.2/qwen35-27b_b1"
TOKENS = 6  # the export has the prompt's step and 5 decode steps (fixtures/README.md)


@pytest.fixture
def here(tmp_path, monkeypatch):
    """The stand-ins on the path; their environment."""
    environment = stand_ins.install(tmp_path / "stand-ins", exports.exported(EXPORT))
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    return environment


@pytest.fixture
def config(tmp_path):
    model = tmp_path / "models" / "tiny-1b"
    model.mkdir(parents=True)
    (model / "config.json").write_text('{"vocab_size": 500, "num_hidden_layers": 2}')
    return CaptureConfig(
        model=str(model),
        folder=tmp_path / "runs",
        output_len=TOKENS,
        input_len=16,
        load_format="dummy",
        repeats=3,
        warmups=1,
        deadline_s=60,
    )


# --- command lines


def test_the_command_takes_the_modes_of_the_library():
    assert COMMAND_MODES == MODES


@pytest.mark.parametrize(
    ("version", "window", "arguments", "setting"),
    [
        # The sources of each are named in vllm_versions.toml.
        ("0.8.5", "own", (), ("VLLM_ENABLE_V1_MULTIPROCESSING", "0")),
        ("0.12.0", "vllm", (), ("VLLM_TORCH_CUDA_PROFILE", "1")),
        ("0.24.0+cu130", "vllm", ("--profiler-config.profiler", "cuda"), None),
        ("0.99.1", "vllm", ("--profiler-config.profiler", "cuda"), None),
        ("unknown", "vllm", ("--profiler-config.profiler", "cuda"), None),
    ],
)
def test_the_window_is_opened_as_the_version_can(version, window, arguments, setting):
    found = profiling_of(version)
    assert (found.range, found.arguments) == (window, arguments)
    assert found.environment == ((setting,) if setting else ())


def test_a_version_too_old_is_refused():
    with pytest.raises(CaptureError, match=r"vLLM is 0\.6\.3; captures need 0\.8\.0"):
        profiling_of("0.6.3")


def test_versions_are_read_from_what_programs_print():
    assert parse_version("NVIDIA Nsight Systems version 2025.3.2.367-x") == (2025, 3, 2)
    assert parse_version("0.24") == (0, 24, 0)
    assert parse_version("") is None


def test_the_plan_records_each_mode_after_it_is_timed(config):
    config = dataclasses.replace(
        config,
        batches=(1, 8),
        vllm_args=("--language-model-only",),
        quantization="fp8",
        tensor_parallel=2,
    )
    stages = list(dry_run(config))
    assert [stage.name for stage in stages] == [
        "measure_graphs", "record_graphs", "measure_eager", "record_eager",
        "export_graphs_b1", "export_graphs_b8", "export_eager_b1", "export_eager_b8",
    ]  # fmt: skip
    measured, recorded, eager = stages[0].command, stages[1].command, stages[3].command
    assert measured[0] == config.python
    assert "--profiler-config.profiler" not in measured
    # The checklist of nsys options: each is there because without it a capture goes wrong.
    for option in (
        "--trace=cuda,nvtx", "--sample=none", "--cpuctxsw=none", "--trace-fork-before-exec=true",
        "--cuda-graph-trace=node", "--capture-range=cudaProfilerApi",
        "--capture-range-end=repeat:2",
    ):  # fmt: skip
        assert option in recorded
    assert recorded[-3:] == ("--profiler-config.profiler", "cuda", "--language-model-only")
    assert "--enforce-eager" in eager
    assert "--enforce-eager" not in recorded
    engine = recorded[recorded.index("--") + 1 :]
    assert engine[:2] == ("--model", config.model)
    for option, value in (
        ("--max-model-len", "22"), ("--quantization", "fp8"), ("--tensor-parallel-size", "2"),
        ("--load-format", "dummy"),
    ):  # fmt: skip
        assert engine[engine.index(option) + 1] == value
    assert stages[1].environment["VLLM_WORKER_MULTIPROC_METHOD"] == "spawn"


def test_a_dry_run_prints_the_lines_and_makes_nothing(tmp_path):
    folder = tmp_path / "runs"
    arguments = ["capture", "some/model", "--folder", str(folder), "--batch", "1,8", "--dry-run"]
    done = CliRunner().invoke(main, [*arguments, "--", "--language-model-only"])
    assert done.exit_code == 0
    lines = done.stdout.splitlines()
    assert len(lines) == 8
    assert all("--language-model-only" in line for line in lines[:4])
    assert not folder.exists()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"output_len": 1}, "output_len is 1, less than 2"),
        ({"batches": ()}, "batches are"),
        ({"batches": (1, 1)}, "different numbers"),
        ({"modes": ("fast",)}, "modes are fast"),
        ({"label": "a/b"}, "cannot be part of a folder's name"),
        ({"repeats": -1}, "repeats is -1"),
    ],
)
def test_a_configuration_that_cannot_be_captured_is_refused(config, change, message):
    with pytest.raises(CaptureError, match=message):
        dataclasses.replace(config, **change)


# --- prompts


def test_random_prompts_follow_from_the_seed_and_stay_in_the_vocabulary(config):
    config = dataclasses.replace(config, batches=(1, 4))
    ids = np.array(make_prompts(config))
    assert ids.shape == (4, 16)
    assert ids.min() >= 0
    assert ids.max() < 500  # the vocabulary of the configuration
    assert make_prompts(config) == ids.tolist()
    assert make_prompts(dataclasses.replace(config, seed=1)) != ids.tolist()


@pytest.fixture
def tokenized(config):
    """The configuration with a tokenizer of whole words beside its model."""
    words = {"where": 0, "does": 1, "a": 2, "step": 3, "go": 4, "?": 5}
    tokenizer = tokenizers.Tokenizer(tokenizers.models.WordLevel(words, unk_token="?"))  # noqa: S106
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    tokenizer.save(str(Path(config.model) / "tokenizer.json"))
    prompt = config.folder.parent / "prompt.txt"
    prompt.write_text("where does a step go?")
    return dataclasses.replace(config, prompt=prompt, batches=(2,), input_len=4)


def test_a_text_is_cut_to_the_length_asked_for(tokenized):
    assert make_prompts(tokenized) == [[0, 1, 2, 3]] * 2


def test_a_text_that_is_too_short_is_refused(tokenized):
    with pytest.raises(CaptureError, match="is 6 tokens, fewer than the 7 asked for"):
        make_prompts(dataclasses.replace(tokenized, input_len=7))


def test_a_prompt_that_is_not_there_is_refused(tokenized, tmp_path):
    with pytest.raises(CaptureError, match="cannot be read as text"):
        make_prompts(dataclasses.replace(tokenized, prompt=tmp_path / "none.txt"))


def test_a_text_without_the_tokenizers_package_is_refused(tokenized, monkeypatch):
    monkeypatch.setitem(sys.modules, "tokenizers", None)
    with pytest.raises(MissingExtra, match=r"pip install 'kernelscope\[capture\]'"):
        make_prompts(tokenized)


def test_a_model_without_tokenizer_is_refused(tokenized):
    (Path(tokenized.model) / "tokenizer.json").write_text("{}")
    with pytest.raises(CaptureError, match=r"tokenizer of .* cannot be loaded"):
        make_prompts(tokenized)


# --- a whole run


def test_a_run_says_what_ran_and_is_analyzed(here, config):
    config = dataclasses.replace(config, batches=(1, 8), modes=("graphs",))
    seen = []
    run = capture(config, progress=lambda *told: seen.append(told[1]))
    assert run.name.endswith("_tiny-1b_bfloat16_capture")
    facts = json.loads((run / "run.json").read_text())
    assert facts["host"]["packages"]["vllm"] == "0.24.0"
    assert facts["host"]["gpus"][0]["name"] == "NVIDIA H200"
    assert facts["host"]["nsys"].startswith("2025.3.2")
    assert facts["model_config"]["num_hidden_layers"] == 2
    assert [(one["mode"], one["batch"]) for one in facts["captures"]] == [
        ("graphs", 1), ("graphs", 8),
    ]  # fmt: skip
    assert len(json.loads((run / "prompt" / "prompt_ids.json").read_text())) == 8
    assert not list((run / "raw").glob("*.nsys-rep"))
    engines = [
        options
        for who, what, *rest in stand_ins.notes(here)
        if what == "engine"
        for options in rest
    ]
    assert [options["profiler_config.profiler"] for options in engines] == [None, "cuda"]
    assert [note[1] for note in stand_ins.notes(here) if note[0] == "vllm"][2:] == [
        "start",
        "stop",
    ] * 2
    assert seen.count("finishing") >= 2
    # 20 ms for the prompt, 5 ms for each further token: the stand-in's own times.
    captured = read_run(run).captures[0]
    assert captured.first_token_ms.median == pytest.approx(20)
    assert captured.step_ms.median == pytest.approx(5)


@pytest.mark.usefixtures("here")
def test_the_analysis_is_the_same_byte_for_byte(config):
    run = capture(dataclasses.replace(config, modes=("eager",)))
    first = analyze_run(run)
    made = {path.name: path.read_bytes() for path in (run / "analysis").iterdir()}
    (run / "analysis" / "stale_b1.csv").write_text("of an older version")
    analyze_run(run)
    assert {path.name: path.read_bytes() for path in (run / "analysis").iterdir()} == made
    assert set(made) == {
        "phase_summary.csv", "kernels_decode_b1_eager.csv", "kernels_prefill_b1_eager.csv",
        "layers_decode_b1_eager.csv", "layers_prefill_b1_eager.csv", "steps_b1_eager.csv",
    }  # fmt: skip
    decode = first.tables["phase_summary"].filter(phase="decode").to_dicts()[0]
    # Counted in the capture by SQL (fixtures/README.md): 1,023 kernels, 305 multiplies.
    assert (decode["kernels_per_step"], decode["gemm_count"]) == (1023, 305)
    assert decode["inflation"] == pytest.approx(
        decode["wall_ms"] / decode["unprofiled_ms"] - 1, abs=1e-5
    )
    kernels = first.tables["kernels_decode_b1_eager"]
    assert kernels["count_per_step"].sum() == 1023
    assert kernels["share"].sum() == pytest.approx(1, abs=1e-4)


@pytest.mark.usefixtures("here")
def test_inductors_sources_are_kept(config, tmp_path, monkeypatch):
    cache = tmp_path / "cache" / "abc"
    (cache / "inductor_cache" / "xy").mkdir(parents=True)
    (cache / "rank_0_0" / "backbone").mkdir(parents=True)
    (cache / "inductor_cache" / "xy" / "cxy.py").write_text("x = async_compile.triton('t', '''''')")
    (cache / "inductor_cache" / "xy" / "other.py").write_text("y = 1")
    monkeypatch.setenv("KS_CACHE", str(cache))
    run = capture(dataclasses.replace(config, modes=("graphs",), repeats=0))
    assert [path.name for path in (run / "inductor").rglob("*.py")] == ["cxy.py"]
    assert json.loads((run / "run.json").read_text())["inductor_sources"] == [
        "inductor/inductor_cache/cxy.py"
    ]


@pytest.mark.usefixtures("here")
def test_the_command_prints_the_phases(config):
    arguments = ["capture", config.model, "--folder", str(config.folder), "--mode", "graphs"]
    arguments += ["--output-len", str(TOKENS), "--repeats", "2", "--warmups", "1"]
    done = CliRunner().invoke(main, arguments)
    assert done.exit_code == 0, done.output
    row = next(line for line in done.stdout.splitlines() if "decode" in line)
    assert row.split()[:4] == ["graphs", "1", "decode", "1,023"]
    run = next(config.folder.iterdir())
    assert f"wrote {run}" in done.stderr
    # The stand-in takes 5 ms for a step and the export 15 ms.
    assert "longer under the profiler" in done.stdout
    again = CliRunner().invoke(main, ["analyze", str(run)])
    assert again.exit_code == 0
    assert again.stdout == done.stdout


@pytest.mark.usefixtures("here")
@pytest.mark.parametrize("columns", [80, 100])
def test_the_phases_fit_the_terminal(config, columns, monkeypatch):
    run = capture(dataclasses.replace(config, modes=("graphs",)))
    monkeypatch.setenv("COLUMNS", str(columns))
    done = CliRunner().invoke(main, ["analyze", str(run)])
    table = [line for line in done.stdout.splitlines() if line.startswith(("mode", "graphs "))]
    assert len(table) == 3
    assert max(map(len, table)) <= columns


@pytest.mark.usefixtures("here")
def test_another_number_of_steps_is_a_problem(config):
    run = capture(dataclasses.replace(config, modes=("graphs",), output_len=20, repeats=0))
    done = CliRunner().invoke(main, ["analyze", str(run)])
    assert done.exit_code == 1
    assert "4 decode steps found, expected 19" in " ".join(done.stdout.split())


# --- failures

FAILURES = {
    "no version": "nsys (nsys) failed with exit code 1",
    "old nsys": "captures need 2022.4 or newer",
    "no gpu": "nvidia-smi failed with exit code 1",
    "driver": "this nsys is too old for the driver",
    "memory": "the GPU has too little free memory for the model",
    "model": "the model was not found",
    "died": "vLLM's process died",
    "secret": "something else entirely",
    "no range": "the profiler's window did not open",
    "importer": "this nsys has no importer",
    "disk full": "the disk is full",
    "empty export": "wrote no graphs_b1.sqlite",
}


@pytest.mark.usefixtures("here")
@pytest.mark.parametrize("trial", FAILURES)
def test_a_failure_says_what_happened(config, monkeypatch, trial):
    monkeypatch.setenv("KS_TRIAL", trial)
    arguments = ["capture", config.model, "--folder", str(config.folder), "--mode", "graphs"]
    done = CliRunner().invoke(main, [*arguments, "--repeats", "0", "--warmups", "1"])
    assert done.exit_code == 1
    assert FAILURES[trial] in done.stderr
    assert len(done.stderr.strip().splitlines()[-1]) > 20
    assert "Traceback" not in done.output


@pytest.mark.usefixtures("here")
def test_what_was_recorded_is_kept_when_a_later_stage_fails(config, monkeypatch):
    monkeypatch.setenv("KS_TRIAL", "disk full")
    with pytest.raises(CaptureError):
        capture(dataclasses.replace(config, modes=("graphs",), repeats=0))
    run = next(config.folder.iterdir())
    assert [path.name for path in (run / "raw").iterdir()] == ["graphs_b1.nsys-rep"]
    assert (run / "logs" / "export_graphs_b1.log").read_text()
    with pytest.raises(RunError, match="holds no export"):
        read_run(run)


def test_missing_programs_are_named(config, tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(CaptureError, match=r"nsys \(nsys\) was not found\. Install"):
        capture(config)
    with pytest.raises(CaptureError, match="was not found"):
        capture(dataclasses.replace(config, nsys="/does/not/exist"))


@pytest.mark.usefixtures("here")
def test_a_python_without_vllm_is_told(config, monkeypatch):
    monkeypatch.delenv("PYTHONPATH")
    with pytest.raises(CaptureError, match="has no vLLM"):
        capture(config)


@pytest.mark.usefixtures("here")
def test_a_run_is_never_overwritten(config):
    config = dataclasses.replace(config, modes=("graphs",), repeats=0)
    capture(config)
    with pytest.raises(CaptureError, match="is there already"):
        capture(config)


@pytest.mark.usefixtures("here")
def test_more_gpus_than_there_are_is_refused(config):
    with pytest.raises(CaptureError, match="2 GPUs are asked for and 1 found"):
        capture(dataclasses.replace(config, tensor_parallel=2))


def test_a_stage_past_its_deadline_leaves_no_process(here, config, monkeypatch):
    monkeypatch.setenv("KS_TRIAL", "hang")
    with pytest.raises(CaptureError, match="took longer than 2 s"):
        capture(dataclasses.replace(config, modes=("graphs",), repeats=0, deadline_s=2))
    assert not _is_alive(_child(here))


def test_ctrl_c_stops_nsys_and_its_children(here, config):
    arguments = ["-m", "kernelscope", "capture", config.model, "--folder", str(config.folder)]
    process = subprocess.Popen(
        [sys.executable, *arguments, "--repeats", "0"],
        env=os.environ | {"KS_TRIAL": "hang"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    deadline = time.monotonic() + 30
    while _child(here) is None:
        assert time.monotonic() < deadline
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    _, told = process.communicate(timeout=30)
    assert process.returncode != 0
    assert "Traceback" not in told
    assert not _is_alive(_child(here))


def _child(environment):
    return next((note[2] for note in stand_ins.notes(environment) if note[1] == "child"), None)


def _is_alive(pid):
    """A process that ended may still wait to be collected."""
    try:
        return ") Z " not in Path(f"/proc/{pid}/stat").read_text()
    except FileNotFoundError:
        return False


def test_the_log_of_a_failure_is_read_from_its_end(tmp_path):
    log = tmp_path / "x.log"
    log.write_text("CUDA out of memory\n" + "fine\n" * 100_000 + "the end\n")
    assert "the end" in str(failure("x ended", log))
    assert "memory" not in str(failure("x ended", log))
    assert "It wrote nothing" in str(failure("x ended", tmp_path / "none.log"))


def test_stages_are_told_from_the_log():
    # Lines as vLLM 0.24 and the workload write them.
    assert stage_of("INFO Starting to load model x...") == "loading"
    lines = ("Starting to load model", "Dynamo bytecode transform", "Capturing CUDA graphs")
    assert stage_of("\n".join(lines)) == "capturing graphs"
    assert stage_of("nothing known") is None


# --- run folders


@pytest.fixture
def run(here, config):  # noqa: ARG001 (the stand-ins must be on the path)
    return capture(dataclasses.replace(config, modes=("graphs",), repeats=0))


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda run: (run / "run.json").unlink(), "is no run folder"),
        (lambda run: (run / "run.json").write_text("{"), "is not JSON"),
        (lambda run: (run / "run.json").write_text("{}"), "lacks what a run must say"),
        (lambda run: (run / "run.json").write_text('{"format": 99}'), "is of format 99"),
        (lambda run: (run / "raw" / "graphs_b1.sqlite").unlink(), r"lacks raw/graphs_b1\.sqlite"),
        (lambda run: (run / "raw" / "graphs_b1.sqlite").write_bytes(b"x"), "is not the file that"),
        (lambda run: _edit(run, "../../x.sqlite"), "outside the run folder"),
    ],
)
def test_a_run_folder_that_cannot_be_trusted_is_refused(run, damage, message):
    damage(run)
    with pytest.raises(RunError, match=message):
        analyze_run(run)


def _edit(run, export):
    facts = json.loads((run / "run.json").read_text())
    facts["captures"][0]["export"] = export
    (run / "run.json").write_text(json.dumps(facts))


def test_times_that_measured_nothing_give_no_step_time(run):
    facts = json.loads((run / "run.json").read_text())
    facts["captures"][0]["unprofiled"] = {"first_token_s": [2.0, 2.0], "all_tokens_s": [1.0, 1.0]}
    (run / "run.json").write_text(json.dumps(facts))
    captured = read_run(run).captures[0]
    assert captured.step_ms is None
    assert captured.first_token_ms.median == 2000
    assert analyze_run(run).tables["phase_summary"]["inflation"].null_count() == 2
