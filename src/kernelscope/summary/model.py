"""The result of a summary, and its form as JSON."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import PurePath
from typing import TYPE_CHECKING, Any

import polars as pl

from kernelscope import interop
from kernelscope.errors import PhaseNotFound
from kernelscope.findings import Finding, sentences
from kernelscope.layers import Layers
from kernelscope.summary.figures import Left, PhaseSummary, Rank
from kernelscope.summary.steps import step_rows
from kernelscope.trace import TraceInfo

if TYPE_CHECKING:
    import pandas
    import pyarrow

    from kernelscope.charts import Plots

TABLES = (
    "category",
    "family",
    "kernel",
    "step",
    "step_category",
    "trend",
    "part",
    "rank",
    "collective",
    "typical",
)
"""The tables of a summary, by what one row stands for."""

_PLURAL = {
    "category": "categories",
    "family": "families",
    "kernel": "kernels",
    "layer": "layers",
}


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
        findings: what was found that limits what the numbers mean.
        tables: one frame per name in :data:`TABLES`; see :meth:`table`.
        layers: how steps fold into the layers of the model, if that was asked for; then there
            are also the tables ``"layer"``, ``"layer_kind"`` and ``"layer_family"``.
        notes: what else there is to say.
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
    findings: tuple[Finding, ...]
    tables: Mapping[str, pl.DataFrame]
    layers: Layers | None = None
    notes: tuple[str, ...] = ()

    @property
    def warnings(self) -> tuple[str, ...]:
        """What a reader must know before quoting a number: the findings as sentences."""
        return sentences(self.findings)

    def phase(self, phase: str, rank: int = 0, batch: int | None = None) -> PhaseSummary:
        """The summary of one phase; KeyError naming the phases there are, if it has none."""
        for found in self.phases:
            if (found.phase, found.rank, found.batch) == (phase, rank, batch):
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
            name: table.filter(pl.col("phase") == phase) if "phase" in table.columns else table
            for name, table in self.tables.items()
        }
        return replace(self, phases=phases, tables=tables)

    def table(self, by: str = "category") -> pl.DataFrame:
        """One of the summary's frames.

        ``"category"``, ``"family"`` and ``"kernel"`` have one row per rank, phase and that
        thing, largest first: ``kernels_per_step`` (float64, mean), ``kernel_ms`` (float64, mean
        per step), ``share`` (float64, of the phase's kernel time). ``"step"`` has one row per
        step, excluded ones with their ``status``; its times are int64 nanoseconds.
        ``"step_category"`` has their times per category and ``"trend"`` how those move
        (:mod:`kernelscope.summary.steps`); ``"part"`` has the replays that make up one step
        (:mod:`kernelscope.summary.parts`); ``"rank"`` and ``"collective"`` compare ranks
        (:mod:`kernelscope.summary.ranks`). ``"typical"`` has the kernels of the step in the
        middle of each phase (:mod:`kernelscope.summary.typical`).

        Raises:
            KeyError: there is no such table.
        """
        return self.tables[by]

    @property
    def plot(self) -> Plots:
        """Charts: ``summary.plot.shares()``, ``grid()``, ``strip()``, ``layers()``, ``steps()``.

        They need ``pip install 'kernelscope[report]'``; see :class:`kernelscope.charts.Plots`.
        """
        from kernelscope.charts import Plots

        gpus = sorted({rank.gpu for rank in self.ranks if rank.gpu})
        subtitle = " · ".join([*gpus, PurePath(self.info.path).name])
        return Plots(self.tables, subtitle="".join(c if c.isprintable() else " " for c in subtitle))

    def steps(self) -> pl.DataFrame:
        """One row per step, times in ms, with a column ``<category>_ms`` per category."""
        return step_rows(self.table("step"), self.table("step_category"))

    def rows(self, phase: PhaseSummary, by: str = "category") -> pl.DataFrame:
        """The rows of a table that belong to one phase, rank and batch."""
        return self.table(by).filter(
            (pl.col("rank") == phase.rank)
            & (pl.col("phase") == phase.phase)
            & pl.col("batch").eq_missing(pl.lit(phase.batch, pl.Int64))
        )

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
            "derived_from": self.info.derived.told if self.info.derived else "",
            "exporter": self.info.exporter or "",
            "schema": self.info.schema or "",
            "step_method": self.step_method,
        }

    def to_dict(self, by: str = "category") -> dict[str, Any]:
        """The summary as plain data for JSON; the keys are documented and stable.

        ``by`` chooses the table under each phase: ``categories``, ``families``, ``kernels`` or
        ``layers`` (with ``layer_kinds``).
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
                "derived_from": self.info.derived.told if self.info.derived else None,
            },
            "step_method": self.step_method,
            "step_evidence": self.step_evidence,
            "ranks": [asdict(rank) for rank in self.ranks],
            "across_ranks": self.table("rank").to_dicts() if len(self.ranks) > 1 else [],
            "collectives": self.table("collective").to_dicts(),
            "phases": [self._phase_dict(phase, by) for phase in self.phases],
            "excluded_steps": [asdict(left) for left in self.excluded],
            "outside_steps": {
                "kernels": sum(left.kernels for left in self.outside),
                "kernel_ms": sum(left.kernel_ms for left in self.outside),
                "reasons": [asdict(left) for left in self.outside],
            },
            "warnings": list(self.warnings),
            "notes": list(self.notes),
        }

    def _phase_dict(self, phase: PhaseSummary, by: str) -> dict[str, Any]:
        rows = self.rows(phase, by)
        parts = self.rows(phase, "part").drop("phase", "rank", "batch").to_dicts()
        found = (
            asdict(phase)
            | {"parts": parts}
            | {_PLURAL[by]: rows.drop("phase", "rank", "batch").to_dicts()}
        )
        if by == "layer":
            kinds = self.rows(phase, "layer_kind")
            found["layer_kinds"] = kinds.drop("phase", "rank", "batch").to_dicts()
            found["layer_evidence"] = self.layer_evidence(phase)
        return found

    def layer_evidence(self, phase: PhaseSummary) -> str:
        """What the layers of a phase rest on, or why there are none."""
        for found in self.layers.found if self.layers else ():
            if (found.rank, found.phase) == (phase.rank, phase.phase):
                return found.evidence
        return "no layers were looked for"
