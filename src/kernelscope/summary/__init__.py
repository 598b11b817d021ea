"""Where the time of each phase goes: read, split into steps, classify, add up."""

from __future__ import annotations

import os
from importlib.metadata import version

import polars as pl

from kernelscope.analysis import analyze
from kernelscope.errors import UnknownKernels
from kernelscope.measure import Measured, measure
from kernelscope.nsys import read_export
from kernelscope.rules import RuleTable
from kernelscope.rules.tables import UNKNOWN
from kernelscope.step_table import build_step_table
from kernelscope.steps import Steps
from kernelscope.summary.model import TABLES, PhaseSummary, Rank, Spread, Summary
from kernelscope.summary.phases import excluded_steps, outside_steps, summarize_phases
from kernelscope.summary.tables import group_kernels, kernel_table
from kernelscope.summary.warnings import find_warnings, outside_warning
from kernelscope.trace import Trace, pid

__all__ = ["TABLES", "PhaseSummary", "Rank", "Spread", "Summary", "check_unknown", "summarize"]


def summarize(
    trace: Trace | str | os.PathLike[str],
    *,
    steps: Steps | None = None,
    rules: RuleTable | None = None,
    context: bool = True,
    inductor_cache: str | os.PathLike[str] | None = None,
) -> Summary:
    """Say how many kernels a step is and where its time goes.

    Args:
        trace: a trace, or the path of an nsys export.
        steps: the steps to use; by default those that :func:`kernelscope.split_steps` finds.
        rules: the rule table to use; by default the built-in one.
        context: whether surroundings decide what names cannot.
        inductor_cache: a folder with Inductor's generated sources of the run, if it was kept;
            see :func:`kernelscope.inductor_sources.read_inductor_sources`.

    Raises:
        SourcesNotFound: ``inductor_cache`` holds no generated kernels.
        ExportError: the path cannot be read as an nsys export, or the file is damaged.
    """
    if not isinstance(trace, Trace):
        trace = read_export(trace)
    found = analyze(trace, steps=steps, rules=rules, context=context, inductor_cache=inductor_cache)
    measured = measure(trace, found.steps, found.placed)
    step_table = build_step_table(trace.info, found.steps, measured)
    kernels = kernel_table(measured.by_name, step_table, found.names)
    phases = summarize_phases(step_table, kernels, measured.memory)
    outside = outside_steps(measured.by_step)
    return Summary(
        kernelscope_version=version("kernelscope"),
        rules_version=found.rules.version,
        info=trace.info,
        step_method=found.steps.method,
        step_evidence=found.steps.evidence,
        ranks=tuple(_ranks(trace, measured)),
        phases=tuple(phases),
        excluded=tuple(excluded_steps(step_table)),
        outside=tuple(outside),
        warnings=(
            *find_warnings(trace.info, found.steps, measured, step_table, phases, kernels),
            *outside_warning(outside, measured),
        ),
        tables={
            "category": group_kernels(kernels, "category", "family"),
            "family": group_kernels(kernels, "family"),
            "kernel": kernels,
            "step": step_table,
        },
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
