"""Whether a capture is what it should be, before success is claimed."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import polars as pl

from kernelscope.findings import Finding, plural
from kernelscope.runs.model import Captured, Run
from kernelscope.runs.tables import inflation
from kernelscope.summary import Summary

_MOST_INFLATION = 0.05


def check_capture(run: Run, captured: Captured, summary: Summary) -> Iterator[Finding]:
    """What one export of a run lacks, and what limits its numbers."""
    where = f"{captured.mode}, batch {captured.batch}"
    if run.facts.get("step_labels") and summary.step_method != "nvtx":
        yield Finding(
            "steps",
            "problem",
            f"{where}: vLLM's step labels are missing; steps were found by {summary.step_method}.",
            "Check that nsys records NVTX and that the worker process was traced.",
        )
    if captured.mode == "graphs" and any(phase.opaque_share for phase in summary.phases):
        yield Finding(
            "graphs",
            "problem",
            f"{where}: CUDA graphs were recorded as wholes, not kernel by kernel.",
            "Use an nsys that knows --cuda-graph-trace=node for this driver.",
        )
    yield from _step_count(run, summary, where)
    for phase in summary.phases:
        more = inflation(captured, phase)
        if more is not None and more > _MOST_INFLATION:
            yield Finding(
                "overhead",
                "warning",
                f"{where}: a decode step takes {more:.0%} longer under the profiler.",
                "Quote the unprofiled step time; shares and counts still hold for the kernels.",
            )
    for found in summary.findings:
        yield replace(found, message=f"{where}: {found.message}")


def _step_count(run: Run, summary: Summary, where: str) -> Iterator[Finding]:
    """Every token after the first is a decode step of its own."""
    steps = summary.table("step").filter(pl.col("rank") == 0)
    decode = steps.filter(pl.col("phase") == "decode").height
    expected = run.output_len - 1
    # The last step's end may lie behind the window; a prompt in chunks leaves mixed steps.
    if not expected - 2 <= decode <= expected + 1:
        yield Finding(
            "steps",
            "problem",
            f"{where}: {plural(decode, 'decode step')} found, expected {expected}.",
            "See the log of the recording, and kernelscope steps on the export.",
        )
