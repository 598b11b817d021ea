"""The close look at an nsys export (:mod:`kernelscope.inspection`)."""

from __future__ import annotations

from collections.abc import Mapping

from kernelscope.api_names import GRAPH_INSTANTIATE, PROFILER_START, PROFILER_STOP
from kernelscope.inspection import Inspection
from kernelscope.nsys import schema
from kernelscope.nsys.calls import count_calls
from kernelscope.nsys.database import Database

_MOST_DAMAGE = 5
_TABLES = (
    schema.KERNEL,
    schema.MEMCPY,
    schema.MEMSET,
    schema.GRAPH_TRACE,
    schema.RUNTIME,
    schema.NVTX,
)
_START_UP: Mapping[str, str] = {
    "graph instantiations": GRAPH_INSTANTIATE,
    "graph captures": "cudaStreamBeginCapture*|cuStreamBeginCapture*",
    "module loads": "cuModuleLoad*|cuLibraryLoad*|cudaLibraryLoad*",
}


def inspect(database: Database) -> Inspection:
    """Look at the whole file once; takes about as long as reading it.

    Raises:
        ExportError: the file is locked, or too damaged to be looked at.
    """
    return Inspection(
        size_bytes=database.path.stat().st_size,
        damage=_damage(database),
        rows=_rows(database),
        profiler_starts=count_calls(database, PROFILER_START),
        profiler_stops=count_calls(database, PROFILER_STOP),
        start_up_calls={
            what: calls
            for what, pattern in _START_UP.items()
            if (calls := count_calls(database, pattern))
        },
    )


def _damage(database: Database) -> tuple[str, ...]:
    """SQLite's own check; it sees structure, not a changed number, as pages have no checksum."""
    found = database.rows(f"PRAGMA quick_check({_MOST_DAMAGE})")
    lines = [line for (text,) in found for line in str(text).splitlines()]
    return () if lines == ["ok"] else tuple(lines[:_MOST_DAMAGE])


def _rows(database: Database) -> dict[str, int]:
    counts = {}
    for name in _TABLES:
        table = schema.find(database, name)
        if table is not None:
            ((counts[name],),) = database.rows(f"SELECT count(*) FROM {schema.quote(table.name)}")
    return counts
