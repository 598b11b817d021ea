"""A phase, and one category of it, over the runs of a record."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Mapping

import polars as pl

from kernelscope.errors import PhaseNotFound
from kernelscope.records.database import reading

# Column of the history -> where it is in the record, and its type.
_COLUMNS: Mapping[str, tuple[str, pl.DataType]] = {
    "run": ("runs.id", pl.String()),
    "captured_at": ("runs.captured_at", pl.String()),
    "recorded_at": ("runs.recorded_at", pl.String()),
    "trace": ("runs.trace", pl.String()),
    "labels": ("runs.labels", pl.String()),
    "gpus": ("runs.gpus", pl.String()),
    "rules_version": ("runs.rules_version", pl.String()),
    "rank": ("phases.rank", pl.Int64()),
    "batch": ("phases.batch", pl.Int64()),
    "phase": ("phases.phase", pl.String()),
    "steps": ("phases.steps", pl.Int64()),
    "kernels_per_step": ("phases.kernels_per_step_median", pl.Float64()),
    "step_ms": ("coalesce(phases.wall_ms_median, phases.span_ms)", pl.Float64()),
    "kernel_ms": ("phases.kernel_ms", pl.Float64()),
}
_OF_CATEGORY: Mapping[str, tuple[str, pl.DataType]] = {
    "category": (":category", pl.String()),
    "category_kernels_per_step": ("coalesce(categories.kernels_per_step, 0)", pl.Float64()),
    "category_ms": ("coalesce(categories.kernel_ms, 0)", pl.Float64()),
    "category_share": ("coalesce(categories.share, 0)", pl.Float64()),
}
_IN_ORDER = "coalesce(runs.captured_at, runs.recorded_at), runs.number"


def history(
    db_path: str | os.PathLike[str],
    phase: str = "decode",
    *,
    category: str | None = None,
    last: int | None = None,
) -> pl.DataFrame:
    """One phase over the runs of a record, oldest capture first.

    Args:
        db_path: a database that :func:`kernelscope.record` wrote.
        phase: ``"decode"``, ``"prefill"``, ``"mixed"`` or ``"trace"``.
        category: a category whose time to show as well; 0 in runs without it.
        last: how many runs to show at most, the newest ones.

    Returns:
        One row per run, rank and batch: ``run``, ``captured_at``, ``recorded_at`` (UTC,
        ISO 8601), ``trace``, ``labels``, ``gpus``, ``rules_version`` (strings), ``rank``,
        ``batch``, ``phase``, ``steps`` (int64), ``kernels_per_step`` (float64, median),
        ``step_ms`` (median wall, or the mean span where no step follows another) and
        ``kernel_ms`` (float64, mean). With a category also ``category``,
        ``category_kernels_per_step``, ``category_ms`` and ``category_share`` (float64, of the
        phase's kernel time).

    Raises:
        RecordError: there is no such database, or it is none of ours.
        PhaseNotFound: no run in it has that phase, or none has the category.
    """
    columns = {**_COLUMNS, **(_OF_CATEGORY if category else {})}
    with reading(db_path) as connection:
        rows = connection.execute(
            _query(columns), {"phase": phase, "category": category, "last": last or -1}
        ).fetchall()
        if not rows:
            raise _not_found(db_path, phase, connection)
        if category:
            _check_category(db_path, phase, category, connection)
    schema = {name: dtype for name, (_, dtype) in columns.items()}
    return pl.DataFrame(rows, schema=schema, orient="row")


def _query(columns: Mapping[str, tuple[str, pl.DataType]]) -> str:
    selected = ", ".join(f"{source} AS {name}" for name, (source, _) in columns.items())
    return f"""
        WITH newest AS (
            SELECT number FROM runs
            WHERE id IN (SELECT run_id FROM phases WHERE phase = :phase)
            ORDER BY coalesce(captured_at, recorded_at) DESC, number DESC LIMIT :last
        )
        SELECT {selected}
        FROM runs
        JOIN phases ON phases.run_id = runs.id AND phases.phase = :phase
        LEFT JOIN categories
            ON categories.phase_id = phases.id AND categories.category = :category
        WHERE runs.number IN newest
        ORDER BY {_IN_ORDER}, phases.rank, phases.batch
    """


def _not_found(
    db_path: str | os.PathLike[str], phase: str, connection: sqlite3.Connection
) -> PhaseNotFound:
    found = [name for (name,) in connection.execute("SELECT DISTINCT phase FROM phases ORDER BY 1")]
    return PhaseNotFound(
        f"No run in {os.fspath(db_path)} has the phase {phase}.",
        hint=f"Phases in it: {', '.join(found) or 'none'}.",
    )


def _check_category(
    db_path: str | os.PathLike[str], phase: str, category: str, connection: sqlite3.Connection
) -> None:
    found = [
        name
        for (name,) in connection.execute(
            "SELECT DISTINCT category FROM categories JOIN phases ON phases.id = phase_id"
            " WHERE phase = ? ORDER BY 1",
            [phase],
        )
    ]
    if category not in found:
        raise PhaseNotFound(
            f"No {phase} step in {os.fspath(db_path)} has kernels of the category {category}.",
            hint=f"Categories in it: {', '.join(found)}.",
        )
