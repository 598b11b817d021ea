"""A summary as an SQLite database, through sqlite-utils, for Datasette or plain SQL."""

from __future__ import annotations

import json

from kernelscope.records.rows import flat
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
        (flat(phase) for phase in summary.to_dict()["phases"]), alter=True
    )
    for name in TABLES:
        rows = summary.table(name)
        types = {column: dtype.to_python() for column, dtype in rows.schema.items()}
        database.table(name).create(types).insert_all(rows.to_dicts())
    serialized = database.conn.serialize()
    database.close()
    return serialized
