"""What an export says of being a part of another: rows of its own in META_DATA_EXPORT.

``DERIVED_FROM`` is for people. ``DERIVED_STEPS`` is JSON for us: what only the whole capture could
tell about the steps that were kept. It may have been written by anyone, so it is checked.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from kernelscope.nsys.database import Database
from kernelscope.nsys.schema import has_column
from kernelscope.trace import Derived, KeptSteps

META_TABLES = ("META_DATA_EXPORT", "EXPORT_META_DATA")
"""Where an exporter tells its version; the second is the name of 2022."""
FROM, STEPS = "DERIVED_FROM", "DERIVED_STEPS"
_MOST_CHARACTERS = 1_000_000
_MOST_TOLD = 200


def read_derived(database: Database) -> Derived | None:
    """What a derived export says of its source; None for one that is not."""
    for table in META_TABLES:
        if has_column(database, table, "value"):
            rows = database.rows(
                f"SELECT name, value FROM {table} WHERE name IN (?, ?)"
                " AND typeof(value) = 'text' AND length(value) <= ?",
                *(FROM, STEPS, _MOST_CHARACTERS),
            )
            facts = dict(rows)
            if FROM in facts:
                return Derived(facts[FROM][:_MOST_TOLD], _kept_steps(facts.get(STEPS)))
    return None


def derived_rows(source: str, kept: KeptSteps | None) -> Iterator[tuple[str, str]]:
    """Names and values to be written into a derived export."""
    yield FROM, source
    if kept is not None:
        yield (
            STEPS,
            json.dumps(
                {
                    "method": kept.method,
                    "steps": kept.steps,
                    "status": {str(step): status for step, status in kept.status.items()},
                    "unfollowed": sorted(kept.unfollowed),
                },
                separators=(",", ":"),
            ),
        )


def _kept_steps(text: str | None) -> KeptSteps | None:
    if text is None:
        return None
    try:
        told = json.loads(text)
        return _checked(told)
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        return None


def _checked(told: Mapping[str, Any]) -> KeptSteps:
    """ValueError, TypeError or KeyError for what trimming does not write."""
    return KeptSteps(
        method=str(told["method"]),
        steps=_number(told["steps"]),
        status={_number(int(step)): str(status) for step, status in told["status"].items()},
        unfollowed=frozenset(_numbers(told["unfollowed"])),
    )


def _numbers(values: Iterable[object]) -> Iterator[int]:
    return (_number(value) for value in values)


def _number(value: object) -> int:
    if not isinstance(value, int) or not 0 <= value < 1 << 31:
        raise ValueError(value)
    return value
