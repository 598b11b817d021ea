"""Findings on the file itself, before anything is computed from it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from kernelscope.findings import Finding, plural
from kernelscope.inspection import Inspection
from kernelscope.nsys.diagnostics import find_lost_data
from kernelscope.trace import Diagnostic, Trace

_BYTES_PER_MB = 1e6
_ROWS = {
    "CUPTI_ACTIVITY_KIND_KERNEL": "kernels",
    "CUPTI_ACTIVITY_KIND_GRAPH_TRACE": "graph replays",
    "CUPTI_ACTIVITY_KIND_MEMCPY": "memory copies",
    "CUPTI_ACTIVITY_KIND_MEMSET": "memory sets",
    "CUPTI_ACTIVITY_KIND_RUNTIME": "API calls",
    "NVTX_EVENTS": "NVTX events",
}
# nsys says these of captures that lack nothing, too: they are about the moment at which the
# window closed, and about processes that do not use CUDA or NVTX.
_USUAL = (
    "not all nvtx events might have been collected",
    "not all cuda events might have been collected",
    "no nvtx events collected",
    "no cuda events collected",
    "cuda profiling might have not been started correctly",
)


def file_findings(trace: Trace) -> Iterator[Finding]:
    """What the file is, whether it is sound, how its window was opened, and what nsys said.

    Raises:
        ExportError: the file is too damaged to be looked at.
    """
    seen = trace.inspect()
    yield Finding("file", "ok", f"{seen.size_bytes / _BYTES_PER_MB:,.1f} MB: {_rows(seen.rows)}.")
    if trace.info.derived:
        yield Finding("file", "ok", f"Derived from another file, {trace.info.derived.told}.")
    yield _integrity(seen)
    exporter = trace.info.exporter or "of unknown version"
    schema = trace.info.schema or "of unknown version"
    yield Finding("exporter", "ok", f"Exported by nsys {exporter}, schema {schema}.")
    yield _window(seen)
    if seen.start_up_calls:
        yield _start_up(seen.start_up_calls)
    yield from _diagnostics(trace.info.diagnostics)


def _rows(rows: Mapping[str, int]) -> str:
    told = [f"{rows[table]:,} {noun}" for table, noun in _ROWS.items() if rows.get(table)]
    return ", ".join(told) or "no events"


def _integrity(seen: Inspection) -> Finding:
    if not seen.damage:
        return Finding("integrity", "ok", "A check of the whole file finds no damage.")
    return Finding(
        "integrity",
        "problem",
        f"The file is damaged: {'; '.join(seen.damage)}.",
        "Copy it again, or export it again with nsys export --force-overwrite true.",
    )


def _window(seen: Inspection) -> Finding:
    if seen.profiler_starts + seen.profiler_stops == 0:
        message = "No profiler start or stop call is in it: who opened the window is unknown."
        return Finding("window", "ok", message)
    opened = plural(seen.profiler_starts, "profiler start call")
    closed = plural(seen.profiler_stops, "stop call")
    return Finding("window", "ok", f"The process opened the window itself: {opened}, {closed}.")


def _start_up(calls: Mapping[str, int]) -> Finding:
    told = ", ".join(f"{number:,} {what}" for what, number in calls.items())
    return Finding(
        "window",
        "warning",
        f"Start-up is in the window: {told}.",
        "Open the window after warm-up: --capture-range=cudaProfilerApi with "
        "--profiler-config.profiler cuda.",
    )


def _diagnostics(diagnostics: tuple[Diagnostic, ...]) -> Iterator[Finding]:
    """What nsys said, but for what is a finding of the trace already: that data were lost."""
    usual = [one for one in diagnostics if _is_usual(one)]
    if usual:
        texts = "; ".join(one.shortened.rstrip(".") for one in usual)
        message = f"nsys recorded {plural(len(usual), 'message')} that it has for sound captures."
        yield Finding("diagnostics", "ok", message, evidence=texts)
    for one in diagnostics:
        if not _is_usual(one) and not any(find_lost_data([one])):
            times = f" ({one.times:,} times)" if one.times > 1 else ""
            message = f"nsys recorded: {one.shortened.rstrip('.')}{times}."
            yield Finding("diagnostics", "warning", message)


def _is_usual(diagnostic: Diagnostic) -> bool:
    return any(text in diagnostic.text.casefold() for text in _USUAL)
