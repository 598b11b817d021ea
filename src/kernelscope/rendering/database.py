"""A summary as an SQLite database, through sqlite-utils, for Datasette or plain SQL."""

from __future__ import annotations

import json
from typing import Any

from kernelscope.summary.model import TABLES, Summary


def render_sqlite(summary: Summary, by: str) -> bytes:
    """A database with the tables ``run``, ``phase`` and every table of the summary.

    ``by`` changes nothing: all kinds of row are in it.
    """
    del by
    # Imported on use: it brings in pandas where that is installed, half a second.
    import sqlite_utils

    database = sqlite_utils.Database(memory=True, execute_plugins=False)
    database.table("run").insert({**summary.provenance(), "warnings": json.dumps(summary.warnings)})
    database.table("phase").insert_all(
        (_flat(phase) for phase in summary.to_dict()["phases"]), alter=True
    )
    for name in TABLES:
        rows = summary.table(name)
        types = {column: dtype.to_python() for column, dtype in rows.schema.items()}
        database.table(name).create(types).insert_all(rows.to_dicts())
    serialized = database.conn.serialize()
    database.close()
    return serialized


def _flat(phase: dict[str, Any]) -> dict[str, Any]:
    """One level of columns: ``wall_ms_median`` for ``wall_ms`` / ``median``."""
    flat: dict[str, Any] = {}
    for key, value in phase.items():
        if isinstance(value, dict):
            flat |= {f"{key}_{inner}": inner_value for inner, inner_value in value.items()}
        elif not isinstance(value, list):
            flat[key] = value
    return flat
