"""The result of a summary: frozen nouns, and their form as JSON.

Milliseconds are float64; a share is a fraction of the phase's kernel time and the shares of a
phase add up to 1.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any

import polars as pl

from kernelscope import interop
from kernelscope.errors import PhaseNotFound
from kernelscope.trace import TraceInfo

if TYPE_CHECKING:
    import pandas
    import pyarrow

TABLES = ("category", "family", "kernel", "step")
"""The tables of a summary, by what one row stands for."""


@dataclass(frozen=True)
class Spread:
    """Median, 10th and 90th percentile (linear interpolation), minimum and maximum."""

    median: float
    p10: float
    p90: float
    min: float
    max: float


@dataclass(frozen=True)
class Counts:
    """Median, minimum and maximum of a count per step."""

    median: float
    min: int
    max: int


@dataclass(frozen=True)
class LargestKernel:
    """The longest single kernel of a phase's complete steps."""

    name: str
    short_name: str
    category: str
    duration_ms: float
    """Of that one execution."""
    share: float
    """Of the kernel time of its phase's average step, for one such execution."""


@dataclass(frozen=True)
class MemoryOperations:
    """Memory copies and sets per step: means over the complete steps. Never part of a share."""

    copies_per_step: float
    copy_ms: float
    copied_bytes: float
    sets_per_step: float
    set_ms: float


@dataclass(frozen=True)
class PhaseSummary:
    """The complete steps of one phase on one rank.

    ``kernel_ms``, ``busy_ms``, ``span_ms`` and ``idle_ms`` are means per step, so that
    categories add up to ``kernel_ms`` and ``busy_ms + idle_ms = span_ms``.
    """

    phase: str
    rank: int
    steps: int
    incomplete_steps: int
    excluded_steps: int
    """Steps of this phase in no average for another reason; see ``Summary.excluded``."""
    requests_per_step: Counts | None
    kernels_per_step: Counts
    wall_ms: Spread | None
    """First kernel start to the next step's first kernel start, where a step follows."""
    span_ms: float
    """First kernel start to last kernel end."""
    kernel_ms: float
    """Sum of kernel durations (and of opaque replays)."""
    busy_ms: float
    """Time in which at least one kernel ran: the union of their intervals on the device."""
    idle_ms: float
    """``span_ms - busy_ms``."""
    overlap_ms: float
    """``kernel_ms - busy_ms``: time in which kernels ran side by side."""
    gap_ms: float | None
    """Median idle time between the last kernel and the next step's first."""
    launch_calls_per_step: float
    """Median number of API calls that start kernels; a graph launch counts once."""
    graph_launches_per_step: float
    tokens_per_s: float | None
    """Generated tokens over wall time (median); null where the label cannot tell how many."""
    prompt_tokens_per_s: float | None
    opaque_share: float
    """Share of kernel time inside replays that were not recorded kernel by kernel. If it is
    above 0, every other share is a lower bound."""
    largest_kernel: LargestKernel | None
    memory: MemoryOperations


@dataclass(frozen=True)
class Rank:
    """One process on one GPU, with its work in the whole capture."""

    rank: int
    pid: int
    process: str | None
    device: int
    gpu: str | None
    kernels: int
    kernel_ms: float


@dataclass(frozen=True)
class Left:
    """Work that enters no average, and why."""

    reason: str
    phase: str | None
    steps: int
    kernels: int
    kernel_ms: float


@dataclass(frozen=True, eq=False)
class Summary:
    """Where the steps of a run go.

    Attributes:
        kernelscope_version: of the software that made it.
        rules_version: of the rule table that classified the kernels.
        info: facts about the capture.
        step_method: ``"nvtx"`` (vLLM's labels) or ``"none"``.
        step_evidence: what the steps rest on.
        ranks: who did the work.
        phases: one entry per rank and phase that has complete steps.
        excluded: steps in no average, by phase and reason.
        outside: kernels in no step, by reason.
        warnings: what a reader must know before quoting a number.
        tables: one frame per name in :data:`TABLES`; see :meth:`table`.
    """

    kernelscope_version: str
    rules_version: str
    info: TraceInfo
    step_method: str
    step_evidence: str
    ranks: tuple[Rank, ...]
    phases: tuple[PhaseSummary, ...]
    excluded: tuple[Left, ...]
    outside: tuple[Left, ...]
    warnings: tuple[str, ...]
    tables: Mapping[str, pl.DataFrame]

    def phase(self, phase: str, rank: int = 0) -> PhaseSummary:
        """The summary of one phase; KeyError naming the phases there are, if it has none."""
        for found in self.phases:
            if (found.phase, found.rank) == (phase, rank):
                return found
        there_are = ", ".join(f"{found.phase} (rank {found.rank})" for found in self.phases)
        raise KeyError(f"no complete {phase} step on rank {rank}; there are: {there_are}")

    def only(self, phase: str) -> Summary:
        """The same summary, showing one phase; work left out of it stays listed.

        Raises:
            PhaseNotFound: no step of that phase is complete.
        """
        phases = tuple(found for found in self.phases if found.phase == phase)
        if not phases:
            there_are = ", ".join(sorted({found.phase for found in self.phases})) or "none"
            raise PhaseNotFound(
                f"{self.info.path} has no complete {phase} step.",
                hint=f"Phases with complete steps: {there_are}.",
            )
        tables = {
            name: table.filter(pl.col("phase") == phase) for name, table in self.tables.items()
        }
        return replace(self, phases=phases, tables=tables)

    def table(self, by: str = "category") -> pl.DataFrame:
        """One of the summary's frames.

        ``"category"``, ``"family"`` and ``"kernel"`` have one row per rank, phase and that
        thing, largest first: ``kernels_per_step`` (float64, mean), ``kernel_ms`` (float64, mean
        per step), ``share`` (float64, of the phase's kernel time). ``"step"`` has one row per
        step, excluded ones with their ``status``; its times are int64 nanoseconds.

        Raises:
            KeyError: there is no such table.
        """
        return self.tables[by]

    def to_pandas(self, by: str = "category") -> pandas.DataFrame:
        """:meth:`table` as a pandas DataFrame."""
        return interop.to_pandas(self.table(by))

    def to_arrow(self, by: str = "category") -> pyarrow.Table:
        """:meth:`table` as an Arrow table, its origin in the schema's metadata."""
        return interop.to_arrow(self.table(by), self.provenance())

    def provenance(self) -> dict[str, str]:
        """Where the numbers come from, for a file's metadata."""
        return {
            "kernelscope_version": self.kernelscope_version,
            "rules_version": self.rules_version,
            "trace": self.info.path,
            "exporter": self.info.exporter or "",
            "schema": self.info.schema or "",
            "step_method": self.step_method,
        }

    def to_dict(self, by: str = "category") -> dict[str, Any]:
        """The summary as plain data for JSON; the keys are documented and stable.

        ``by`` chooses the table under each phase: ``categories``, ``families`` or ``kernels``.
        """
        return {
            "kernelscope_version": self.kernelscope_version,
            "rules_version": self.rules_version,
            "trace": {
                "path": self.info.path,
                "exporter": self.info.exporter,
                "schema": self.info.schema,
                "gpus": sorted({rank.gpu for rank in self.ranks if rank.gpu}),
                "graph_trace": self.info.graph_trace,
            },
            "step_method": self.step_method,
            "step_evidence": self.step_evidence,
            "ranks": [asdict(rank) for rank in self.ranks],
            "phases": [self._phase_dict(phase, by) for phase in self.phases],
            "excluded_steps": [asdict(left) for left in self.excluded],
            "outside_steps": {
                "kernels": sum(left.kernels for left in self.outside),
                "kernel_ms": sum(left.kernel_ms for left in self.outside),
                "reasons": [asdict(left) for left in self.outside],
            },
            "warnings": list(self.warnings),
        }

    def _phase_dict(self, phase: PhaseSummary, by: str) -> dict[str, Any]:
        rows = self.table(by).filter(
            (pl.col("phase") == phase.phase) & (pl.col("rank") == phase.rank)
        )
        key = {"category": "categories", "family": "families", "kernel": "kernels"}[by]
        return asdict(phase) | {key: rows.drop("phase", "rank").to_dicts()}
