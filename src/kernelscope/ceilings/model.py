"""The result: every piece of work against the ceilings of its GPU."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

import polars as pl

from kernelscope.ceilings.formats import PLAIN, formats
from kernelscope.ceilings.gpus import Peaks
from kernelscope.errors import ChartError, PhaseNotFound
from kernelscope.findings import Finding, sentences
from kernelscope.frames import Schema

MEMORY, COMPUTE = "memory", "compute"

ROOFLINE: Schema = {
    "rank": pl.UInt16(),
    "phase": pl.String(),
    "name": pl.String(),
    "kind": pl.String(),
    "format": pl.String(),
    "n": pl.Int64(),
    "k": pl.Int64(),
    "calls": pl.Int64(),
    "weight_bytes": pl.Float64(),
    "bytes": pl.Float64(),
    "flops": pl.Float64(),
    "kernel_ms": pl.Float64(),
    "bytes_per_s": pl.Float64(),
    "flops_per_s": pl.Float64(),
    "floor_ms": pl.Float64(),
    "of_peak": pl.Float64(),
    "bound": pl.String(),
}
"""One row per rank, phase and piece of work, in launch order.

``kind`` is "gemm", "attention", "recurrence" or "convolution"; ``format`` that of the weights
(null without weights); ``n`` and ``k`` the size of a multiply. ``calls``, ``weight_bytes`` (of
the weights alone), ``bytes``, ``flops`` and ``kernel_ms`` are means per step, over all calls
together. ``floor_ms`` is the least time that the ceilings allow, ``of_peak`` that over
``kernel_ms``, and ``bound`` the ceiling that it comes from: "memory" or "compute". What depends
on a context length that is not known is null.
"""


@dataclass(frozen=True)
class WhatIf:
    """A thought experiment on one phase.

    Attributes:
        what: ``"<category> takes no time"`` or ``"gemms at 90 % of peak"``.
        step_ms: what a step would take.
        now_ms: what it takes.
        sentence: both, with the assumption.
    """

    what: str
    step_ms: float
    now_ms: float
    sentence: str


@dataclass(frozen=True)
class PhaseRoofline:
    """The steps of one phase on one rank against the ceilings.

    Means over the steps that were matched, in milliseconds.

    Attributes:
        rank: number of the rank.
        phase: name of the phase.
        steps: steps that were matched; 0 where the phase was declined.
        declined: why it was, as the end of a sentence; empty otherwise.
        tokens_per_step: scheduled, mean.
        requests_per_step: mean.
        context_len: mean tokens in the KV cache per request, where that is known.
        gemm_ms: kernel time of the matched multiplies, split-K reductions included.
        gemm_bytes: what they have to move per step.
        gemm_floor_ms: the least time for that.
        other_ms: kernel time of work that has no floor here.
        kernel_ms: kernel time of a step.
        wall_ms: first kernel start to the next step's, median; null if no step follows another.
        floor_ms: the least time of a step: the floors of all its work, one after the other.
        tokens_per_s_at_floor: generated tokens over the floor; prompt tokens for prefill.
        what_if: thought experiments.
    """

    rank: int
    phase: str
    steps: int
    declined: str = ""
    tokens_per_step: float = 0.0
    requests_per_step: float = 0.0
    context_len: float | None = None
    gemm_ms: float = 0.0
    gemm_bytes: float = 0.0
    gemm_floor_ms: float = 0.0
    other_ms: float = 0.0
    kernel_ms: float = 0.0
    wall_ms: float | None = None
    floor_ms: float = 0.0
    tokens_per_s_at_floor: float | None = None
    what_if: tuple[WhatIf, ...] = ()

    @property
    def gemm_of_peak(self) -> float | None:
        """The floor of the multiplies over their time."""
        return self.gemm_floor_ms / self.gemm_ms if self.gemm_ms else None

    @property
    def gemm_bytes_per_s(self) -> float | None:
        """What the multiplies move per second of their time."""
        return self.gemm_bytes / self.gemm_ms * 1e3 if self.gemm_ms else None

    @property
    def kernel_over_floor(self) -> float | None:
        """How many times the floor the kernel time of a step is."""
        return self.kernel_ms / self.floor_ms if self.floor_ms else None

    @property
    def wall_over_floor(self) -> float | None:
        """How many times the floor a step lasts."""
        return self.wall_ms / self.floor_ms if self.wall_ms and self.floor_ms else None

    def to_dict(self) -> dict[str, Any]:
        """The figures as plain data."""
        ratios = ("gemm_of_peak", "gemm_bytes_per_s", "kernel_over_floor", "wall_over_floor")
        return asdict(self) | {name: getattr(self, name) for name in ratios}


@dataclass(frozen=True, eq=False)
class Roofline:
    """A run against what its GPUs can do.

    Attributes:
        provenance: where the numbers come from (as in a summary), and the configuration.
        weights: weights of all multiplies of the model on one GPU.
        quantization: their formats.
        tensor_parallel: how many GPUs share each layer.
        peaks: the ceilings of each rank's GPU.
        phases: one entry per rank and phase with complete steps, also where it was declined.
        table: one row per piece of work (:data:`ROOFLINE`).
        findings: what the numbers assume ("ok") and what limits them ("warning").
    """

    provenance: Mapping[str, str]
    weights: int
    quantization: str
    tensor_parallel: int
    peaks: Mapping[int, Peaks]
    phases: tuple[PhaseRoofline, ...]
    table: pl.DataFrame
    findings: tuple[Finding, ...]

    @property
    def warnings(self) -> tuple[str, ...]:
        """What a reader must know before quoting a number, as sentences."""
        return sentences(self.findings)

    @property
    def assumptions(self) -> tuple[str, ...]:
        """What the numbers rest on, as sentences."""
        return tuple(found.sentence for found in self.findings if found.level == "ok")

    def phase(self, phase: str, rank: int = 0) -> PhaseRoofline:
        """One phase; KeyError naming the phases there are, if there is no such one."""
        for found in self.phases:
            if (found.phase, found.rank) == (phase, rank):
                return found
        there_are = ", ".join(f"{found.phase} (rank {found.rank})" for found in self.phases)
        raise KeyError(f"no {phase} steps on rank {rank}; there are: {there_are}")

    def only(self, phase: str) -> Roofline:
        """The same, showing one phase.

        Raises:
            PhaseNotFound: no step of that phase is complete.
        """
        phases = tuple(found for found in self.phases if found.phase == phase)
        if not phases:
            there_are = ", ".join(sorted({found.phase for found in self.phases}))
            raise PhaseNotFound(
                f"{self.provenance['trace']} has no complete {phase} step.",
                hint=f"Phases with complete steps: {there_are}.",
            )
        table = self.table.filter(pl.col("phase") == phase)
        return replace(self, phases=phases, table=table)

    def rows(self, phase: PhaseRoofline) -> pl.DataFrame:
        """The rows of the table that belong to one phase."""
        mine = (pl.col("rank") == phase.rank) & (pl.col("phase") == phase.phase)
        return self.table.filter(mine)

    def plot(
        self,
        phase: str | None = None,
        *,
        rank: int = 0,
        theme: str = "light",
        width: int | str = 640,
        titled: bool = True,
    ) -> Any:
        """One phase's work below the roofs, as an Altair chart.

        By default the first phase that has a roofline, decode first.

        Raises:
            ChartError: no such phase has a roofline.
            MissingExtra: Altair is not installed.
        """
        from kernelscope.charts import plot_roofline

        for found in self.phases:
            if found.steps and found.rank == rank and phase in (None, found.phase):
                break
        else:
            raise ChartError(f"No {phase or 'phase'} on rank {rank} has a roofline to draw.")
        rows, peaks = self.rows(found), self.peaks[rank]
        used = {formats()[name or PLAIN].compute for name in rows["format"]}
        return plot_roofline(
            rows,
            peaks.bandwidth_bytes_per_s,
            {precision: peaks.compute(precision) for precision in sorted(used)},
            title=f"Roofline of a {found.phase} step" if titled else "",
            subtitle=peaks.gpu if titled else "",
            theme_name=theme,
            width=width,
        )

    def to_dict(self) -> dict[str, Any]:
        """Everything as plain data for JSON; the keys are documented and stable."""
        return {
            **self.provenance,
            "weights": self.weights,
            "quantization": self.quantization,
            "tensor_parallel": self.tensor_parallel,
            "peaks": [self._peaks(rank, peaks) for rank, peaks in self.peaks.items()],
            "phases": [
                phase.to_dict() | {"work": self.rows(phase).drop("rank", "phase").to_dicts()}
                for phase in self.phases
            ],
            "assumptions": list(self.assumptions),
            "warnings": list(self.warnings),
        }

    @staticmethod
    def _peaks(rank: int, peaks: Peaks) -> dict[str, Any]:
        return {"rank": rank, **asdict(peaks), "ridge_flop_per_byte": peaks.ridge()}
