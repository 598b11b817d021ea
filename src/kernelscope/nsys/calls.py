"""How often an API call was made, asked of the file."""

from __future__ import annotations

from kernelscope.nsys import schema
from kernelscope.nsys.database import Database, placeholders

_MOST_NAMES = 500


def count_calls(database: Database, pattern: str) -> int:
    """How many calls have such a name (:mod:`kernelscope.api_names`)."""
    names = call_names(database, pattern)
    if not names:
        return 0
    ((count,),) = database.rows(
        f"SELECT count(*) FROM {schema.RUNTIME} WHERE nameId IN ({placeholders(names)})", *names
    )
    return int(count)


def call_names(database: Database, pattern: str) -> list[int]:
    """Ids of the API names that match; SQLite's GLOB patterns, a few dozen names at most."""
    if not schema.has_column(database, schema.RUNTIME, "nameId"):
        return []
    if not schema.has_column(database, schema.STRINGS, "value"):
        return []
    globs = pattern.split("|")
    condition = " OR ".join("value GLOB ?" for _ in globs)
    return [
        number
        for (number,) in database.rows(
            f"SELECT id FROM {schema.STRINGS} WHERE {condition} LIMIT {_MOST_NAMES}", *globs
        )
    ]
