"""A summary as rows of a record, with ids that follow from the content alone."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import polars as pl

from kernelscope.summary.figures import PhaseSummary
from kernelscope.summary.model import Summary

Row = dict[str, Any]

_NS_PER_MS = 1e6
_NS_PER_S = 1_000_000_000
_ID_DIGITS = 16
_NO_COLUMNS = ("largest_kernel", "memory")
_KERNEL = ("name", "short_name", "category", "family", "rule_id", "method", "pair")
_SUMS = ("kernels_per_step", "kernel_ms", "share")
_STEP = (
    "rank",
    "step",
    "phase",
    "status",
    "label",
    "context_requests",
    "context_tokens",
    "generation_requests",
    "generation_tokens",
    "start_ms",
    "wall_ms",
    "span_ms",
    "kernel_ms",
    "busy_ms",
    "idle_ms",
    "kernels",
    "graph_launches",
    "launch_calls",
)


@dataclass(frozen=True)
class Rows:
    """What a record holds of one run: its row in ``runs``, and the rows of the other tables."""

    run: Row
    tables: Mapping[str, list[Row]]


def rows_of(summary: Summary) -> Rows:
    """The rows of a summary; the run's ``content`` is a hash of all that may change in them."""
    run = _run(summary)
    tables = {
        "phases": [_phase(run["id"], phase) for phase in summary.phases],
        "categories": _in_phases(summary, run["id"], "category"),
        "kernels": _kernels(summary, run["id"]),
        "steps": _steps(summary, run["id"]),
    }
    return Rows({**run, "content": _hash([run, tables])}, tables)


def run_id(summary: Summary) -> str:
    """16 hexadecimal digits that tell captures apart, whatever their files are called.

    They come from who did the work, and how much: pid, device, kernels and nanoseconds of kernel
    time of each rank in the whole capture. So two exports of one report are one run, and neither
    the rules nor the choice of steps matter; a part of a trace is another run.
    """
    work = [
        [rank.pid, rank.device, rank.kernels, round(rank.kernel_ms * _NS_PER_MS)]
        for rank in summary.ranks
    ]
    return _hash(work)[:_ID_DIGITS]


def flat(phase: Mapping[str, Any]) -> Row:
    """One level of columns: ``wall_ms_median`` for ``wall_ms`` / ``median``."""
    columns: Row = {}
    for key, value in phase.items():
        if isinstance(value, dict):
            columns |= {f"{key}_{inner}": inner_value for inner, inner_value in value.items()}
        elif not isinstance(value, list):
            columns[key] = value
    return columns


def _run(summary: Summary) -> Row:
    info = summary.info
    started_ns = info.started_utc_ns
    captured = None if started_ns is None else datetime.fromtimestamp(started_ns // _NS_PER_S, UTC)
    return {
        "id": run_id(summary),
        "captured_at": captured and captured.isoformat(),
        "trace": Path(info.path).name,
        "gpus": _joined(rank.gpu for rank in summary.ranks),
        "processes": _joined(rank.process for rank in summary.ranks),
        "ranks": len(summary.ranks),
        "exporter": info.exporter,
        "graph_trace": info.graph_trace,
        "derived_from": info.derived.told if info.derived else None,
        "step_method": summary.step_method,
        "step_evidence": summary.step_evidence,
        "kernelscope_version": summary.kernelscope_version,
        "rules_version": summary.rules_version,
        "warnings": json.dumps(summary.warnings),
    }


def _phase(run: str, phase: PhaseSummary) -> Row:
    columns = {name: value for name, value in asdict(phase).items() if name not in _NO_COLUMNS}
    known = flat({name: value for name, value in columns.items() if value is not None})
    return {"id": _phase_id(run, phase), "run_id": run, **known}


def _phase_id(run: str, phase: PhaseSummary) -> str:
    batch = "" if phase.batch is None else f"-batch{phase.batch}"
    return f"{run}-rank{phase.rank}-{phase.phase}{batch}"


def _in_phases(summary: Summary, run: str, table: str) -> list[Row]:
    """The rows of a table with the id of their phase."""
    return [
        {"phase_id": _phase_id(run, phase), **row}
        for phase in summary.phases
        for row in summary.rows(phase, table).drop("rank", "phase", "batch").to_dicts()
    ]


def _kernels(summary: Summary, run: str) -> list[Row]:
    keys = ["rank", "phase", "batch", *_KERNEL]
    sums = [*(pl.col(name).sum() for name in _SUMS), pl.col("longest_ms").max()]
    # One name can have two ids in an export.
    table = summary.table("kernel").group_by(keys, maintain_order=True).agg(sums)
    distinct = {**summary.tables, "kernel": table}
    rows = _in_phases(replace(summary, tables=distinct), run, "kernel")
    return [
        {"id": f"{row['phase_id']}-{_hash([row[key] for key in _KERNEL])[:_ID_DIGITS]}", **row}
        for row in rows
    ]


def _steps(summary: Summary, run: str) -> list[Row]:
    return [{"run_id": run, **row} for row in summary.steps().select(_STEP).to_dicts()]


def _joined(texts: Any) -> str | None:
    return ", ".join(sorted({text for text in texts if text})) or None


def _hash(content: object) -> str:
    """Of plain data; floats to nine digits, as sums differ in the last by the order of terms."""
    rounded = json.loads(json.dumps(content), parse_float=lambda text: f"{float(text):.9g}")
    return hashlib.sha256(json.dumps(rounded).encode()).hexdigest()
