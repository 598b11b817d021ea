"""From a configuration to command lines: pure functions, tested without a GPU."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from kernelscope.capture.config import EAGER, CaptureConfig
from kernelscope.capture.versions import Profiling

WORKLOAD = "workload.py"
PROMPTS = "prompt/prompt_ids.json"

# spawn, because a forked worker inherits a CUDA context that the profiler cannot follow.
_ENVIRONMENT = {"VLLM_WORKER_MULTIPROC_METHOD": "spawn"}
_NSYS = (
    "--trace=cuda,nvtx",
    "--sample=none",
    "--cpuctxsw=none",
    "--trace-fork-before-exec=true",
    "--cuda-graph-trace=node",
    "--capture-range=cudaProfilerApi",
)


@dataclass(frozen=True)
class Stage:
    """One program to run.

    Attributes:
        name: of its log.
        kind: ``"measure"`` (without the profiler), ``"record"`` or ``"export"``.
        mode: graphs or eager.
        command: the arguments, the program first.
        environment: what is set beyond what is there, and nothing secret.
    """

    name: str
    kind: str
    mode: str
    command: tuple[str, ...]
    environment: Mapping[str, str]

    @property
    def line(self) -> str:
        """As it can be pasted into a shell."""
        settings = [f"{name}={shlex.quote(value)}" for name, value in self.environment.items()]
        return " ".join([*settings, shlex.join(self.command)])


def plan(config: CaptureConfig, profiling: Profiling, run: Path) -> Iterator[Stage]:
    """The programs of a capture up to the reports, in order.

    Args:
        config: what to capture.
        profiling: how the vLLM at hand is profiled.
        run: the run folder.
    """
    environment = _ENVIRONMENT | dict(profiling.environment)
    for mode in config.modes:
        if config.repeats:
            times = str(run / "raw" / f"times_{mode}.json")
            timed = _workload(
                config, mode, run, ("--repeats", str(config.repeats), "--times", times)
            )
            yield Stage(f"measure_{mode}", "measure", mode, timed, _ENVIRONMENT)
        recorded = _workload(config, mode, run, ("--range", profiling.range), profiling.arguments)
        yield Stage(
            f"record_{mode}", "record", mode, (*_profile(config, mode, run), *recorded), environment
        )


def export_stage(config: CaptureConfig, mode: str, batch: int, report: Path) -> Stage:
    """From a report to its SQLite export beside it."""
    command = (
        config.nsys,
        "export",
        "--type=sqlite",
        "--force-overwrite=true",
        f"--output={report.with_suffix('.sqlite')}",
        str(report),
    )
    return Stage(f"export_{mode}_b{batch}", "export", mode, command, {})


def _profile(config: CaptureConfig, mode: str, run: Path) -> tuple[str, ...]:
    """Each batch opens the range once, and each range becomes a report of its own."""
    return (
        config.nsys,
        "profile",
        *_NSYS,
        f"--capture-range-end=repeat:{len(config.batches)}",
        "--force-overwrite=true",
        f"--output={run / 'raw' / mode}",
    )


def _workload(
    config: CaptureConfig,
    mode: str,
    run: Path,
    how: tuple[str, ...],
    profiling: tuple[str, ...] = (),
) -> tuple[str, ...]:
    return (
        config.python,
        str(run / WORKLOAD),
        "--prompts",
        str(run / PROMPTS),
        "--batches",
        ",".join(map(str, config.batches)),
        "--new-tokens",
        str(config.output_len),
        "--warmups",
        str(config.warmups),
        *how,
        "--",
        *_engine(config, mode),
        *profiling,
        *config.vllm_args,
    )


def _engine(config: CaptureConfig, mode: str) -> Iterator[str]:
    """VLLM's own arguments; what the user passes through comes behind them and wins."""
    yield from ("--model", config.model, "--dtype", config.dtype)
    yield from ("--max-model-len", str(config.input_len + config.output_len))
    # Every prompt comes again and again: a cache of prefixes would leave no prompt phase.
    yield "--no-enable-prefix-caching"
    if config.load_format != "auto":
        yield from ("--load-format", config.load_format)
    if config.quantization is not None:
        yield from ("--quantization", config.quantization)
    if config.tensor_parallel > 1:
        yield from ("--tensor-parallel-size", str(config.tensor_parallel))
    if mode == EAGER:
        yield "--enforce-eager"
