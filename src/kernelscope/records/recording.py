"""Putting a summary into a record: once, however often it is done."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Literal

from kernelscope.records.database import writing
from kernelscope.records.rows import Row, rows_of
from kernelscope.summary.model import Summary

if TYPE_CHECKING:
    import sqlite_utils

Outcome = Literal["added", "updated", "unchanged"]


@dataclass(frozen=True)
class Recorded:
    """What became of a run in a record.

    Attributes:
        run_id: its id in the record: 16 hexadecimal digits that follow from the capture.
        outcome: ``"added"``, ``"updated"`` (its numbers, facts or labels were others) or
            ``"unchanged"``.
    """

    run_id: str
    outcome: Outcome


def record(
    summary: Summary,
    db_path: str | os.PathLike[str],
    *,
    labels: Mapping[str, str] | None = None,
) -> Recorded:
    """Put a summary into a database of runs; the database is made if there is none.

    A run is known by its capture, not by its file's name: the same trace again changes nothing,
    and with other rules, another choice of steps or a newer kernelscope its rows are replaced.
    All of a run is written or nothing; of two writers one waits for the other.

    Args:
        summary: of a trace.
        db_path: the SQLite file.
        labels: what to call the run, by key; a plain tag has an empty value. Earlier labels
            with other keys stay.

    Raises:
        RecordError: the file is no record of runs, is one of a later release, or cannot be
            written.
    """
    rows = rows_of(summary)
    run = rows.run["id"]
    with writing(db_path) as database:
        known = list(database.query("SELECT number, content, labels FROM runs WHERE id = ?", [run]))
        told = _labels(database, run) | dict(labels or {})
        row = {**rows.run, "labels": label_text(told)}
        if known and (known[0]["content"], known[0]["labels"] or "") == (
            row["content"],
            row["labels"],
        ):
            return Recorded(run, "unchanged")
        _put_run(database, row, known[0]["number"] if known else None)
        for name in ("phases", "steps"):  # what hangs on phases goes with them
            database.table(name).delete_where("run_id = ?", [run])
        for name, content in rows.tables.items():
            database.table(name).insert_all(content)
        database.table("labels").upsert_all(
            [{"run_id": run, "key": key, "value": value} for key, value in told.items()],
            pk=("run_id", "key"),
        )
    return Recorded(run, "updated" if known else "added")


def label_text(labels: Mapping[str, str]) -> str:
    """``engine=vllm nightly``: labels as one searchable text, by key."""
    return " ".join(f"{key}={value}" if value else key for key, value in sorted(labels.items()))


def _labels(database: sqlite_utils.Database, run: str) -> dict[str, str]:
    found = database.query("SELECT key, value FROM labels WHERE run_id = ?", [run])
    return {row["key"]: row["value"] for row in found}


def _put_run(database: sqlite_utils.Database, row: Row, number: int | None) -> None:
    table = database.table("runs")
    if number is None:
        now = datetime.now(UTC).isoformat(timespec="seconds")
        table.insert({**row, "recorded_at": now})
    else:
        table.update(number, row)
