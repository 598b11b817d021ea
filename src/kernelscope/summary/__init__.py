"""Where the time of each phase goes: read, split into steps, classify, add up."""

from __future__ import annotations

import os
from dataclasses import replace
from importlib.metadata import version

import polars as pl

from kernelscope.analysis import Analysis, analyze
from kernelscope.errors import UnknownKernels
from kernelscope.findings import Finding
from kernelscope.layers import Layers, check_config, find_layers
from kernelscope.measure import Measured, measure
from kernelscope.nsys import read_export
from kernelscope.rules import RuleTable
from kernelscope.rules.tables import UNKNOWN
from kernelscope.step_table import Choice, build_step_table, choose
from kernelscope.steps import Steps
from kernelscope.summary.deviations import find_deviations
from kernelscope.summary.figures import PhaseSummary, Rank, Spread
from kernelscope.summary.findings import Result, find_findings
from kernelscope.summary.model import TABLES, Summary
from kernelscope.summary.parts import find_parts
from kernelscope.summary.phases import excluded_steps, outside_steps, summarize_phases
from kernelscope.summary.ranks import combine_ranks, split_collectives
from kernelscope.summary.steps import find_trends, time_per_category
from kernelscope.summary.tables import group_kernels, kernel_table, with_batch
from kernelscope.summary.typical import typical_steps
from kernelscope.trace import Trace, pid

__all__ = [
    "TABLES",
    "PhaseSummary",
    "Rank",
    "Spread",
    "Summary",
    "check_layers",
    "check_unknown",
    "summarize",
    "summarize_analysis",
]


def summarize(
    trace: Trace | str | os.PathLike[str],
    *,
    steps: Steps | None = None,
    rules: RuleTable | None = None,
    context: bool = True,
    inductor_cache: str | os.PathLike[str] | None = None,
    choice: Choice | None = None,
    split_by_batch: bool = False,
    layers: bool = False,
) -> Summary:
    """Say how many kernels a step is and where its time goes.

    Args:
        trace: a trace, or the path of an nsys export.
        steps: the steps to use; by default those that :func:`kernelscope.split_steps` finds.
        rules: the rule table to use; by default the built-in one.
        context: whether surroundings decide what names cannot.
        inductor_cache: a folder with Inductor's generated sources of the run, if it was kept;
            see :func:`kernelscope.inductor_sources.read_inductor_sources`.
        choice: which complete steps to average; by default all.
        split_by_batch: whether steps of different numbers of requests are averaged apart.
        layers: whether to fold steps into the layers of the model, too.

    Raises:
        SourcesNotFound: ``inductor_cache`` holds no generated kernels.
        ExportError: the path cannot be read as an nsys export, or the file is damaged.
    """
    if not isinstance(trace, Trace):
        trace = read_export(trace)
    found = analyze(trace, steps=steps, rules=rules, context=context, inductor_cache=inductor_cache)
    return summarize_analysis(
        trace, found, choice=choice, split_by_batch=split_by_batch, layers=layers
    )


def summarize_analysis(
    trace: Trace,
    found: Analysis,
    *,
    choice: Choice | None = None,
    split_by_batch: bool = False,
    layers: bool = False,
) -> Summary:
    """Add up a trace that is taken apart already; see :func:`summarize`.

    Raises:
        ExportError: the file is damaged.
    """
    measured = measure(trace, found.steps, found.placed)
    step_table = build_step_table(trace.info, found.steps, measured)
    if choice is not None:
        step_table = choose(step_table, choice)
    step_table = with_batch(step_table, split=split_by_batch)
    kernels = kernel_table(measured.by_name, step_table, found.names)
    phases = tuple(summarize_phases(step_table, kernels, measured.memory))
    outside = tuple(outside_steps(measured.by_step))
    deviations = find_deviations(step_table, measured.by_name, found.names)
    categories = group_kernels(kernels, "category", "family")
    per_category = time_per_category(measured.by_name, found.names)
    folded = find_layers(found.placed, found.names, step_table, trace) if layers else None
    result = Result(
        trace.info, found.steps, measured, step_table, phases, kernels, deviations, outside
    )
    return Summary(
        kernelscope_version=version("kernelscope"),
        rules_version=found.rules.version,
        info=trace.info,
        step_method=found.steps.method,
        step_evidence=found.steps.evidence,
        ranks=tuple(_ranks(trace, measured)),
        phases=phases,
        excluded=tuple(excluded_steps(step_table)),
        outside=outside,
        findings=tuple(find_findings(result)),
        tables={
            "category": categories,
            "family": group_kernels(kernels, "family"),
            "kernel": kernels,
            "step": step_table,
            "step_category": per_category,
            "trend": find_trends(step_table, per_category),
            "part": find_parts(found.placed, found.steps, step_table),
            "rank": combine_ranks(categories),
            "collective": split_collectives(found.placed, found.names, step_table),
            "typical": typical_steps(found.placed, found.names, step_table),
            **(layer_tables(folded) if folded else {}),
        },
        layers=folded,
    )


def _ranks(trace: Trace, measured: Measured) -> list[Rank]:
    process_names = dict(trace.info.process_names)
    ranks = []
    for row in measured.ranks.to_dicts():
        gpu = trace.info.gpu(row["process"], row["device"])
        ranks.append(
            Rank(
                rank=row["rank"],
                pid=pid(row["process"]),
                process=process_names.get(row["process"]),
                device=row["device"],
                gpu=gpu.name if gpu else None,
                kernels=row["kernels"],
                kernel_ms=row["kernel_ns"] / 1e6,
            )
        )
    return ranks


def layer_tables(layers: Layers) -> dict[str, pl.DataFrame]:
    """The layers in the form of the other tables."""
    no_batch = pl.lit(None, pl.Int64).alias("batch")
    return {
        name: table.rename({"kernels": "kernels_per_step"}).with_columns(no_batch)
        for name, table in (
            ("layer", layers.table),
            ("layer_kind", layers.kinds),
            ("layer_family", layers.families),
        )
    }


def check_layers(summary: Summary, config: str | os.PathLike[str]) -> Summary:
    """The summary with a sentence on whether the model's configuration agrees.

    It is a note if it does and a warning if it does not.

    Args:
        summary: with layers.
        config: a Hugging Face ``config.json``.

    Raises:
        ConfigError: the configuration cannot be used.
    """
    if summary.layers is None:
        return summary
    check = check_config(summary.layers, config)
    if check.agrees:
        return replace(summary, notes=(*summary.notes, check.sentence))
    finding = Finding("steps", "warning", check.sentence)
    return replace(summary, findings=(*summary.findings, finding))


def check_unknown(summary: Summary, most: float) -> None:
    """Return if unknown kernels take at most this share of every phase.

    Raises:
        UnknownKernels: they take more; the message names the phase and the largest of them.
    """
    unknown = summary.table("kernel").filter(pl.col("category") == UNKNOWN)
    for (rank, phase), rows in unknown.group_by(["rank", "phase"], maintain_order=True):
        share = float(rows["share"].sum())
        if share > most:
            raise UnknownKernels(
                f"unknown kernels take {share:.2%} of {phase} (rank {rank}), more than {most:.2%}: "
                f"{', '.join(rows['short_name'].head(3))}.",
                hint="Add rules for them with --rules.",
            )
