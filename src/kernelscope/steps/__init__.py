"""Steps of a run: which kernels belong to one pass of the model."""

from __future__ import annotations

from dataclasses import dataclass

import polars as pl

from kernelscope.steps.labels import PREFIX, parse_labels
from kernelscope.steps.windows import assign_calls
from kernelscope.trace import Trace

__all__ = ["NO_STEPS", "NVTX_LABELS", "Steps", "split_steps"]

NVTX_LABELS = "nvtx"
NO_STEPS = "none"


@dataclass(frozen=True, eq=False)
class Steps:
    """The steps found in a trace.

    Attributes:
        frame: one row per step (:data:`kernelscope.frames.STEPS`); empty if none were found.
        launches: the step of every API call (:data:`kernelscope.frames.LAUNCHES`).
        method: how the steps were found, ``"nvtx"`` (vLLM's labels) or ``"none"``.
        evidence: one sentence on what the method rests on, or why it found nothing.
    """

    frame: pl.DataFrame
    launches: pl.DataFrame
    method: str
    evidence: str


def split_steps(trace: Trace) -> Steps:
    """Find the steps of a run by vLLM's NVTX labels.

    A kernel belongs to the step in whose window its launching API call lies; the window runs
    from the label's start to the next label's start on the same thread. Kernels are tied to
    API calls by (process, correlation id).

    Raises:
        ExportError: the file is damaged.
    """
    frame = parse_labels(trace.find_ranges(PREFIX))
    launches = assign_calls(trace, frame)
    if frame.is_empty():
        why = "no NVTX range is a vLLM step label (execute_context_..._generation_...)"
        return Steps(frame, launches, NO_STEPS, why)
    threads = frame["thread"].n_unique()
    evidence = f"{frame.height:,} vLLM step labels on {threads} worker thread(s)"
    return Steps(frame, launches, NVTX_LABELS, evidence)
