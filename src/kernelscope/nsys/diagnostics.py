"""What nsys itself recorded about a capture, and which of it means that data were lost."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from kernelscope.findings import Finding
from kernelscope.nsys.database import Database
from kernelscope.nsys.schema import has_column
from kernelscope.trace import Diagnostic

_ERROR = 3
_MOST_TEXTS = 200

# Parts of messages of nsys and CUPTI (2020 to 2026), in lower case -> what to do about it.
# "Not all CUDA events might have been collected" is not here: nsys says so of good captures too.
LOST_DATA: tuple[tuple[str, str], ...] = (
    (
        "cupti dropped",
        "Records were lost: capture a shorter window, or with --cuda-flush-interval set.",
    ),
    (
        "allocate cupti buffers",
        "Records were lost for want of memory: capture a shorter window.",
    ),
    ("cupti activity records", "Records were lost: capture with another version of nsys."),
    (
        "reached the size limit",
        "The capture is cut off: capture a shorter window.",
    ),
    (
        "could not load the cupti library",
        "No GPU work is recorded: install an nsys as new as the driver.",
    ),
    (
        "client is already subscribed to cupti",
        "Another profiler had the GPU: let only one run at a time.",
    ),
    (
        "is no longer supported. please update the gpu driver",
        "No GPU work is recorded: update the driver, or use an older nsys.",
    ),
)


def read_diagnostics(database: Database) -> tuple[Diagnostic, ...]:
    """The distinct warnings and errors (severity 2 and 3) in the file, in order of time."""
    if not has_column(database, "DIAGNOSTIC_EVENT", "severity"):
        return ()
    rows = database.rows(
        "SELECT text, max(severity), count(*) FROM DIAGNOSTIC_EVENT WHERE severity IN (2, 3)"
        f" AND text IS NOT NULL GROUP BY text ORDER BY min(timestamp), text LIMIT {_MOST_TEXTS}"
    )
    return tuple(
        Diagnostic(str(text), is_error=severity == _ERROR, times=times)
        for text, severity, times in rows
    )


def find_lost_data(diagnostics: Iterable[Diagnostic]) -> Iterator[Finding]:
    """A finding for each message that means that something is missing from the capture."""
    for diagnostic in diagnostics:
        for part, action in LOST_DATA:
            if part in diagnostic.text.casefold():
                message = f"nsys recorded: {diagnostic.shortened.rstrip('.')}."
                yield Finding("diagnostics", "problem", message, action)
                break
