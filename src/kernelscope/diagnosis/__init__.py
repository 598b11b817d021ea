"""Looking a trace over: what this file is, what can be learned from it, and what not."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator

from kernelscope.analysis import analyze
from kernelscope.diagnosis.close_look import look_closely
from kernelscope.diagnosis.file import file_findings
from kernelscope.diagnosis.model import Diagnosis
from kernelscope.diagnosis.overhead import overhead_findings
from kernelscope.diagnosis.sound import sound_findings
from kernelscope.errors import ExportError
from kernelscope.findings import TOPICS, Finding
from kernelscope.nsys import open_export
from kernelscope.rules import RuleTable
from kernelscope.summary import summarize_analysis
from kernelscope.trace import Progress, Trace

__all__ = ["Diagnosis", "diagnose"]


def diagnose(
    path: str | os.PathLike[str],
    *,
    unprofiled_ms: float | None = None,
    rules: RuleTable | None = None,
    progress: Progress | None = None,
) -> Diagnosis:
    """Look a trace over before its numbers are believed.

    What keeps the trace from being read is a finding too, not an error.

    Args:
        path: an nsys export, or what :func:`kernelscope.read_export` takes else.
        unprofiled_ms: milliseconds that a decode step takes without the profiler, if that was
            measured; then the profiler's overhead is told.
        rules: the rule table to use; by default the built-in one.
        progress: see :func:`kernelscope.read_export`.
    """
    try:
        trace = open_export(path, progress=progress)
    except ExportError as error:
        return Diagnosis(str(path), (_cannot_be_read(error),))
    found: list[Finding] = []
    try:
        found += file_findings(trace)
        trace.source.check_has_work()
        found += _result_findings(trace, rules, unprofiled_ms)
    except ExportError as error:
        found = [*found, *trace.info.findings, _cannot_be_read(error)]
    return Diagnosis(str(path), tuple(_in_order(found)))


def _cannot_be_read(error: ExportError) -> Finding:
    return Finding("file", "problem", error.message, error.hint)


def _result_findings(
    trace: Trace, rules: RuleTable | None, unprofiled_ms: float | None
) -> Iterator[Finding]:
    """What only the kernels and their steps tell."""
    analysis = analyze(trace, rules=rules)
    summary = summarize_analysis(trace, analysis)
    found = [
        *summary.findings,
        *look_closely(trace.info, analysis),
        *overhead_findings(summary, unprofiled_ms),
    ]
    yield from found
    yield from sound_findings(summary, {one.topic for one in found})


def _in_order(found: Iterable[Finding]) -> list[Finding]:
    return sorted(found, key=lambda one: TOPICS.index(one.topic))
