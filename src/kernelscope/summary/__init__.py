"""Where the time of each phase goes: read, split into steps, classify, add up."""

from __future__ import annotations

import os
from importlib.metadata import version


from kernelscope.analysis import analyze
from kernelscope.measure import Measured, measure
from kernelscope.nsys import read_export
from kernelscope.rules import RuleTable
from kernelscope.step_table import build_step_table
from kernelscope.steps import Steps
from kernelscope.summary.model import TABLES, PhaseSummary, Rank, Spread, Summary
from kernelscope.summary.phases import excluded_steps, outside_steps, summarize_phases
from kernelscope.summary.tables import group_kernels, kernel_table
from kernelscope.summary.warnings import find_warnings, outside_warning
from kernelscope.trace import Trace, pid

__all__ = ["TABLES", "PhaseSummary", "Rank", "Spread", "Summary", "summarize"]


def summarize(
    trace: Trace | str | os.PathLike[str],
    *,
    steps: Steps | None = None,
    rules: RuleTable | None = None,
    context: bool = True,
) -> Summary:
    """Say how many kernels a step is and where its time goes.

    Args:
        trace: a trace, or the path of an nsys export.
        steps: the steps to use; by default those that :func:`kernelscope.split_steps` finds.
        rules: the rule table to use; by default the built-in one.
        context: whether surroundings decide what names cannot.

    Raises:
        ExportError: the path cannot be read as an nsys export, or the file is damaged.
    """
    if not isinstance(trace, Trace):
        trace = read_export(trace)
    found = analyze(trace, steps=steps, rules=rules, context=context)
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
