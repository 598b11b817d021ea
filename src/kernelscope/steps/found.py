"""What looking for steps leads to: steps, or a reason why there are none."""

from __future__ import annotations

from dataclasses import dataclass

import polars as pl

NVTX_LABELS = "nvtx"
GRAPH_REPLAYS = "graph"
MARKER_KERNEL = "marker"
DEVICE_GAPS = "gaps"
NO_STEPS = "none"


@dataclass(frozen=True)
class Declined:
    """A method that found no steps, and why.

    Attributes:
        method: its name in :data:`kernelscope.steps.METHODS`.
        reason: what it looked for and did not find, with numbers; not a whole sentence.
    """

    method: str
    reason: str


@dataclass(frozen=True, eq=False)
class Steps:
    """The steps found in a trace.

    Attributes:
        frame: one row per step (:data:`kernelscope.frames.STEPS`); empty if none were found.
        launches: the step of every API call (:data:`kernelscope.frames.LAUNCHES`).
        method: how the steps were found: ``"nvtx"`` (an engine's labels), ``"graph"``
            (recurring CUDA-graph replays), ``"marker"`` (a recurring kernel), ``"gaps"`` (gaps
            on the device) or ``"none"``.
        evidence: one sentence on what the method rests on, or why nothing was found.
        declined: the methods that were tried before and found nothing, in order.
    """

    frame: pl.DataFrame
    launches: pl.DataFrame
    method: str
    evidence: str
    declined: tuple[Declined, ...] = ()

    @property
    def is_inferred(self) -> bool:
        """Whether the steps are a conclusion from the kernels rather than an engine's labels."""
        return self.method in {GRAPH_REPLAYS, MARKER_KERNEL, DEVICE_GAPS}
