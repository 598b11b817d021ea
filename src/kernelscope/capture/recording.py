"""One capture from start to finish: look, run, export, write down."""

from __future__ import annotations

import json
import re
import shutil
import time
from collections.abc import Iterator
from dataclasses import asdict
from importlib.metadata import version
from importlib.resources import files
from pathlib import Path
from typing import Any

from kernelscope.capture.commands import PROMPTS, WORKLOAD, Stage, export_stage, plan
from kernelscope.capture.config import CaptureConfig
from kernelscope.capture.failures import failure, tail
from kernelscope.capture.host import Host, look_at_host
from kernelscope.capture.process import Progress, run_stage
from kernelscope.capture.prompts import make_prompts
from kernelscope.capture.versions import Profiling, profiling_of
from kernelscope.errors import CaptureError, ConfigError
from kernelscope.model_config import read_json_object
from kernelscope.writing import sha256, write_file

_CACHE = re.compile(r"Using cache directory: (\S+?) for vLLM's torch\.compile")
_GENERATED = "async_compile.triton("


def dry_run(config: CaptureConfig, vllm: str = "") -> Iterator[Stage]:
    """The programs that a capture would run, in order; nothing is looked at or started.

    Args:
        config: what to capture.
        vllm: the version of vLLM; by default the newest that is known.

    Raises:
        CaptureError: that version cannot be captured with.
    """
    run = config.folder / config.folder_name("DATE")
    yield from plan(config, profiling_of(vllm), run)
    for mode in config.modes:
        for batch in config.batches:
            yield export_stage(config, mode, batch, run / "raw" / f"{mode}_b{batch}.nsys-rep")


def capture(config: CaptureConfig, *, progress: Progress | None = None) -> Path:
    """Run a workload of vLLM, once without the profiler and once with it, and keep what it left.

    Args:
        config: what to capture.
        progress: called several times a second; see :data:`kernelscope.capture.process.Progress`.

    Returns:
        The run folder, with ``run.json``, ``raw``, ``logs`` and ``prompt``.

    Raises:
        CaptureError: the machine lacks something, or a stage failed; the message has the last
            lines of its log, and what was recorded so far is kept.
    """
    progress = progress or _silent
    host = look_at_host(config)
    profiling = profiling_of(host.packages["vllm"] or "")
    if profiling.range == "own" and config.tensor_parallel > 1:
        raise CaptureError(
            f"vLLM {host.packages['vllm']} cannot open the profiler's window in several workers.",
            hint="Use 0.12.0 or newer for --tensor-parallel above 1.",
        )
    run = _make_folder(config)
    stages = tuple(plan(config, profiling, run))
    facts = _facts(config, host, profiling, stages, run)
    _write(run, facts)
    for stage in stages:
        run_stage(
            stage,
            run / "logs" / f"{stage.name}.log",
            deadline_s=config.deadline_s,
            progress=progress,
        )
        if stage.kind == "record":
            for exported in _export(config, stage, run, progress):
                facts["captures"].append(exported)
                _write(run, facts)
    facts["inductor_sources"] = _keep_sources(run, stages)
    _write(run, facts)
    return run


def _silent(name: str, stage: str, elapsed_s: float, line: str) -> None:
    """Progress that nobody looks at."""


def _make_folder(config: CaptureConfig) -> Path:
    run = config.folder / config.folder_name(time.strftime("%Y-%m-%d"))
    prompts = make_prompts(config)
    try:
        run.mkdir(parents=True)
        for part in ("raw", "logs", "prompt"):
            (run / part).mkdir()
        workload = files("kernelscope.capture").joinpath(WORKLOAD).read_text("utf-8")
        write_file(run / WORKLOAD, workload)
        write_file(run / PROMPTS, json.dumps(prompts) + "\n")
    except FileExistsError as error:
        raise CaptureError(
            f"{run} is there already.", hint="Choose another --label; runs are never overwritten."
        ) from error
    except OSError as error:
        raise CaptureError(f"{run} cannot be made: {error.strerror}.") from error
    return run


def _facts(
    config: CaptureConfig,
    host: Host,
    profiling: Profiling,
    stages: tuple[Stage, ...],
    run: Path,
) -> dict[str, Any]:
    """What ``run.json`` says from the beginning."""
    asked = {name: str(v) if isinstance(v, Path) else v for name, v in asdict(config).items()}
    return {
        "format": 1,
        "kernelscope_version": version("kernelscope"),
        "captured": time.strftime("%Y-%m-%dT%H:%M:%S%z"),
        "config": asked,
        "model_config": _model_config(config.model),
        "prompt": {"file": PROMPTS, "seed": None if config.prompt else config.seed},
        "step_labels": profiling.labels,
        "host": host.to_dict(),
        "commands": {stage.name: stage.line for stage in stages},
        "files": {name: sha256(run / name) for name in (WORKLOAD, PROMPTS)},
        "captures": [],
    }


def _model_config(model: str) -> dict[str, Any] | None:
    """The model's configuration, if it lies in a folder."""
    try:
        return read_json_object(Path(model) / "config.json")
    except ConfigError:
        return None


def _export(
    config: CaptureConfig, stage: Stage, run: Path, progress: Progress
) -> Iterator[dict[str, Any]]:
    """Export each report of a recording; nsys numbers them in the order of the batches."""
    raw, log = run / "raw", run / "logs" / f"{stage.name}.log"
    reports = sorted(raw.glob(f"{stage.mode}*.nsys-rep"), key=_number)
    if len(reports) != len(config.batches):
        left = ", ".join(path.name for path in sorted(raw.glob("*.qdstrm")))
        raise failure(
            f"{stage.name} left {len(reports)} reports for {len(config.batches)} batches"
            + (f" (and {left})" if left else "; the profiler's window did not open"),
            log,
        )
    for batch, found in zip(config.batches, reports, strict=True):
        report = found.rename(raw / f"{stage.mode}_b{batch}.nsys-rep")
        exporting = export_stage(config, stage.mode, batch, report)
        log = run / "logs" / f"{exporting.name}.log"
        run_stage(exporting, log, deadline_s=config.deadline_s, progress=progress)
        exported = report.with_suffix(".sqlite")
        if not exported.is_file() or not exported.stat().st_size:
            raise failure(f"{exporting.name} wrote no {exported.name}", log)
        if not config.keep_report:
            report.unlink()
        yield {
            "mode": stage.mode,
            "batch": batch,
            "export": f"raw/{exported.name}",
            "sha256": sha256(exported),
            "command": exporting.line,
            "unprofiled": _times(raw / f"times_{stage.mode}.json", batch),
        }


def _number(report: Path) -> int:
    """``graphs.2.nsys-rep`` is 2; a single report has no number."""
    numbers = re.findall(r"\d+", report.name.removesuffix(".nsys-rep"))
    return int(numbers[-1]) if numbers else 0


def _times(path: Path, batch: int) -> dict[str, list[float]] | None:
    """Seconds of each unprofiled run of a batch, if there were any."""
    if not path.is_file():
        return None
    measured = json.loads(path.read_text("utf-8"))
    found = next(entry for entry in measured if entry["batch"] == batch)
    return {name: found[name] for name in ("first_token_s", "all_tokens_s")}


def _keep_sources(run: Path, stages: tuple[Stage, ...]) -> list[str]:
    """Copy what Inductor generated for this run; the logs say which cache it used."""
    kept = []
    for folder in {
        found for stage in stages for found in _caches(run / "logs" / f"{stage.name}.log")
    }:
        for source in sorted(folder.rglob("*.py")):
            if _GENERATED in source.read_text("utf-8", "replace"):
                target = run / "inductor" / "inductor_cache" / source.name
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(source, target)
                kept.append(str(target.relative_to(run)))
    return sorted(set(kept))


def _caches(log: Path) -> Iterator[Path]:
    for found in _CACHE.findall(tail(log)):
        # .../<hash>/rank_0_0/backbone: the generated code lies anywhere below the hash.
        folder = Path(found)
        root = next((p.parent for p in folder.parents if p.name.startswith("rank_")), folder)
        if root.is_dir():
            yield root


def _write(run: Path, facts: dict[str, Any]) -> None:
    text = json.dumps(facts, indent=2, ensure_ascii=False) + "\n"
    write_file(run / "run.json", text, overwrite=True)
