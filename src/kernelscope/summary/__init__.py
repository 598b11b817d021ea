"""Where the time of each phase goes: read, split into steps, classify, add up."""

from __future__ import annotations

import os
from importlib.metadata import version

import polars as pl

from kernelscope.classification import classify_names
from kernelscope.kernel_names import name_texts
from kernelscope.measure import Measured, measure
from kernelscope.nsys import read_export
from kernelscope.placement import REPLAY, place
from kernelscope.rules import RuleTable, load_rules
from kernelscope.step_table import build_step_table
from kernelscope.steps import Steps, split_steps
from kernelscope.summary.model import TABLES, PhaseSummary, Rank, Spread, Summary
from kernelscope.summary.phases import excluded_steps, outside_steps, summarize_phases
from kernelscope.summary.tables import group_kernels, kernel_table, replay_name
from kernelscope.summary.warnings import find_warnings, outside_warning
from kernelscope.trace import Trace, pid

__all__ = ["TABLES", "PhaseSummary", "Rank", "Spread", "Summary", "summarize"]


def summarize(
    trace: Trace | str | os.PathLike[str],
    *,
    steps: Steps | None = None,
    rules: RuleTable | None = None,
) -> Summary:
    """Say how many kernels a step is and where its time goes.

    Args:
        trace: a trace, or the path of an nsys export.
        steps: the steps to use; by default those that :func:`kernelscope.split_steps` finds.
        rules: the rule table to use; by default the built-in one.

    Raises:
        ExportError: the path cannot be read as an nsys export, or the file is damaged.
    """
    if not isinstance(trace, Trace):
        trace = read_export(trace)
    steps = steps or split_steps(trace)
    rules = rules or load_rules()
    placed = place(trace, steps)
    measured = measure(trace, steps, placed)
    step_table = build_step_table(trace.info, steps, measured)
    kernels = kernel_table(measured.by_name, step_table, _classified(trace, measured, rules))
    phases = summarize_phases(step_table, kernels, measured.memory)
    outside = outside_steps(measured.by_step)
    return Summary(
        kernelscope_version=version("kernelscope"),
        rules_version=rules.version,
        info=trace.info,
        step_method=steps.method,
        step_evidence=steps.evidence,
        ranks=tuple(_ranks(trace, measured)),
        phases=tuple(phases),
        excluded=tuple(excluded_steps(step_table)),
        outside=tuple(outside),
        warnings=(
            *find_warnings(trace.info, steps, measured, step_table, phases, kernels),
            *outside_warning(outside, measured),
        ),
        tables={
            "category": group_kernels(kernels, "category", "family"),
            "family": group_kernels(kernels, "family"),
            "kernel": kernels,
            "step": step_table,
        },
    )


def _classified(trace: Trace, measured: Measured, rules: RuleTable) -> pl.DataFrame:
    """The distinct kernel names of a trace with their categories."""
    ids = measured.by_name["name_id"]
    names = trace.names(ids.filter(ids != REPLAY)).rename({"id": "name_id"})
    decided = classify_names(names.with_columns(short_name=pl.lit(None, pl.String)), rules)
    families = {category.name: category.family for category in rules.categories}
    named = decided.with_columns(
        short_name=name_texts(decided)["base"].fill_null(decided["name"]),
        family=pl.col("category").replace_strict(families),
    )
    replay = replay_name(rules)
    return pl.concat([named.select(replay.columns), replay])


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
