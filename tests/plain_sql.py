"""What an export holds, counted with sqlite3 alone: nothing of kernelscope is used here.

A kernel belongs to the step whose label began last before the call that launched it.
"""

from __future__ import annotations

import sqlite3
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

_LABELS = """
    SELECT n.start, lead(n.start, 1, 9223372036854775807) OVER (ORDER BY n.start) AS stop,
        coalesce(n.text, t.value) AS label
    FROM NVTX_EVENTS n LEFT JOIN StringIds t ON t.id = n.textId
    WHERE coalesce(n.text, t.value) LIKE 'execute!_context!_%' ESCAPE '!'
"""
_KERNELS = """
    SELECT r.start AS called, k.start, k."end", s.value AS name
    FROM CUPTI_ACTIVITY_KIND_KERNEL k
    JOIN StringIds s ON s.id = k.demangledName
    JOIN CUPTI_ACTIVITY_KIND_RUNTIME r
        ON r.correlationId = k.correlationId AND r.globalTid >> 24 = k.globalPid >> 24
"""


@dataclass(frozen=True)
class Step:
    """One labelled step that launched kernels."""

    label: str
    kernels: int
    kernel_ns: int
    first_ns: int
    last_ns: int

    @property
    def phase(self) -> str:
        context, generation = ("_context_0(" not in self.label, "_generation_0(" not in self.label)
        return {(True, False): "prefill", (False, True): "decode"}.get(
            (context, generation), "mixed"
        )


def query(path: Path, sql: str, *values: object) -> list[tuple]:
    with closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)) as db:
        return db.execute(sql, values).fetchall()


def steps(path: Path, phase: str | None = None, pattern: str = "*") -> list[Step]:
    """The steps of a phase, counting only kernels whose name matches the GLOB pattern."""
    rows = query(
        path,
        f"""
        WITH label AS ({_LABELS}), kernel AS ({_KERNELS})
        SELECT label, count(*), sum("end" - kernel.start), min(kernel.start), max("end")
        FROM label JOIN kernel ON called >= label.start AND called < stop
        WHERE name GLOB ? GROUP BY label.start ORDER BY label.start
        """,
        pattern,
    )
    return [step for step in (Step(*row) for row in rows) if phase in (None, step.phase)]


def kernels(path: Path) -> int:
    return query(path, "SELECT count(*) FROM CUPTI_ACTIVITY_KIND_KERNEL")[0][0]
