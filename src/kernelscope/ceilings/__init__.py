"""Kernels against what the GPU can do: bytes, operations, floors, and the distance to them."""

from __future__ import annotations

import os

import polars as pl

from kernelscope.analysis import Analysis, analyze
from kernelscope.ceilings.architecture import build_architecture
from kernelscope.ceilings.assumptions import model_findings
from kernelscope.ceilings.facts import Facts
from kernelscope.ceilings.gpus import Peaks, find_peaks
from kernelscope.ceilings.model import ROOFLINE, PhaseRoofline, Roofline, WhatIf
from kernelscope.ceilings.phases import Model, Outcome, measure_phases
from kernelscope.ceilings.quantization import read_quantization
from kernelscope.ceilings.run_facts import RunFacts
from kernelscope.errors import ModelMismatch
from kernelscope.model_config import ModelConfig, read_model_config
from kernelscope.nsys import read_export
from kernelscope.rules import RuleTable
from kernelscope.step_table import Choice
from kernelscope.steps import Steps
from kernelscope.summary import Summary, summarize_analysis
from kernelscope.summary.tables import PHASES
from kernelscope.trace import Trace

__all__ = ["ROOFLINE", "Peaks", "PhaseRoofline", "Roofline", "RunFacts", "WhatIf", "roofline"]


def roofline(
    trace: Trace | str | os.PathLike[str],
    model_config: str | os.PathLike[str],
    *,
    run: RunFacts | None = None,
    steps: Steps | None = None,
    rules: RuleTable | None = None,
    context: bool = True,
    inductor_cache: str | os.PathLike[str] | None = None,
    choice: Choice | None = None,
) -> Roofline:
    """Say how near each matrix multiply, and the step, comes to what the GPU can do.

    Args:
        trace: a trace, or the path of an nsys export.
        model_config: the model's Hugging Face ``config.json``, or the folder that holds it.
        run: what neither says: tensor parallel size, a format of the weights, context length,
            peaks of the GPU.
        steps: the steps to use; by default those that :func:`kernelscope.split_steps` finds.
        rules: the rule table to use; by default the built-in one.
        context: whether surroundings decide what names cannot.
        inductor_cache: a folder with Inductor's generated sources of the run, if it was kept.
        choice: which complete steps to average; by default all.

    Raises:
        ConfigError: the configuration cannot be read, or lacks what the work follows from.
        ModelMismatch: no step has the multiplies that the configuration says it must have.
        UnknownGpu: the GPU's peaks are neither known nor run.
        SourcesNotFound: ``inductor_cache`` holds no generated kernels.
        ExportError: the path cannot be read as an nsys export, or the file is damaged.
    """
    run = run or RunFacts()
    config = read_model_config(model_config)
    facts = Facts.of(config, run.tensor_parallel)
    quantization = run.over(read_quantization(config, run.quantization))
    architecture = build_architecture(facts, quantization)
    trace = trace if isinstance(trace, Trace) else read_export(trace)
    found = analyze(trace, steps=steps, rules=rules, context=context, inductor_cache=inductor_cache)
    summary = summarize_analysis(trace, found, choice=choice)
    peaks = _peaks(trace, found, run)
    outcomes = sorted(
        measure_phases(
            trace, found, summary, Model(architecture, peaks, run.tensor_parallel, run.context_len)
        ),
        key=lambda one: (one.phase.rank, PHASES.index(one.phase.phase)),
    )
    _check(outcomes, config, summary)
    findings = [
        *model_findings(facts, quantization, run.quantization),
        *(finding for outcome in outcomes for finding in outcome.findings),
    ]
    return Roofline(
        provenance={**summary.provenance(), "model_config": str(config.path)},
        weights=architecture.weights,
        quantization=quantization.name,
        tensor_parallel=run.tensor_parallel,
        peaks=peaks,
        phases=tuple(outcome.phase for outcome in outcomes),
        table=pl.concat([outcome.table for outcome in outcomes]),
        findings=tuple(dict.fromkeys(findings)),
    )


def _peaks(trace: Trace, found: Analysis, run: RunFacts) -> dict[int, Peaks]:
    return {
        rank: find_peaks(
            trace.info.gpu(process, device),
            bandwidth_gbs=run.bandwidth_gbs,
            peak_tflops=run.peak_tflops,
        )
        for rank, process, device in found.placed.ranks.select(
            "rank", "process", "device"
        ).iter_rows()
    }


def _check(outcomes: list[Outcome], config: ModelConfig, summary: Summary) -> None:
    """Return if at least one phase was matched."""
    if any(outcome.phase.steps for outcome in outcomes):
        return
    if not outcomes:
        raise ModelMismatch(
            f"{summary.info.path} has no complete step to match to {config.path}.",
            hint="Capture with '-t cuda,nvtx' and --profiler-config.profiler cuda.",
        )
    why = "; ".join(dict.fromkeys(f"{one.phase.phase}: {one.phase.declined}" for one in outcomes))
    raise ModelMismatch(
        f"No step of {summary.info.path} can be matched to {config.path}: {why}.",
        hint="Give the config.json of the model that ran, and its --tensor-parallel.",
    )
