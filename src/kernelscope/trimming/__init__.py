"""A part of an export as an export: smaller, consistent, and without what is private."""

from __future__ import annotations

import os
from collections.abc import Container, Mapping
from importlib.metadata import version
from pathlib import Path

from kernelscope.errors import NotAnExport, StepError
from kernelscope.findings import tell_numbers
from kernelscope.nsys import database_of, open_export, schema
from kernelscope.nsys.database import Column, Database
from kernelscope.nsys.derived import META_TABLES, derived_rows
from kernelscope.nsys.extract import Extract, extract_from
from kernelscope.steps import split_steps
from kernelscope.trace import Progress, Trace
from kernelscope.trimming.allowed import load_allowed
from kernelscope.trimming.choosing import Chosen, Request, choose_part
from kernelscope.trimming.copying import Copied, Copier
from kernelscope.trimming.model import Trimmed
from kernelscope.writing import check_target, replacing

__all__ = ["Trimmed", "trim"]


def trim(
    trace: str | os.PathLike[str] | Trace,
    output: str | os.PathLike[str],
    *,
    steps: Container[int] | None = None,
    phase: str | None = None,
    start_ms: float | None = None,
    end_ms: float | None = None,
    scrub: bool = True,
    overwrite: bool = False,
    progress: Progress | None = None,
) -> Trimmed:
    """Write a part of an nsys export as a smaller export that can be shared.

    With every kept step go its API calls, its GPU work, its NVTX ranges, and the names,
    processes, threads, streams and GPUs that these need. A summary of the output has the same
    figures for these steps as one of the whole. Conditions hold together; without any, all steps
    are kept.

    Args:
        trace: the export, an ``.nsys-rep`` where nsys is on the path, or an opened trace.
        output: the SQLite file to write.
        steps: numbers of the steps to keep, as in ``kernelscope steps``; ``range(5, 20)``.
        phase: keep steps of this phase (``"decode"``).
        start_ms: keep steps that begin at this time or later; counted from the first kernel of
            the first step, as ``start_ms`` in the table of steps.
        end_ms: keep steps that begin before this time.
        scrub: copy only what is on the allow-list ``kernelscope/trimming/tables.toml``; no
            environment, command line, user, host, path, log text, other process, serial number.
        overwrite: whether an output that exists is replaced.
        progress: called with kernel rows read and expected, from reading threads.

    Raises:
        ExportError: the trace cannot be read as an nsys export.
        StepError: there is no step as asked for, or nothing that can be tied to it.
        PhaseNotFound: there is no step of that phase.
        OutputError: the output exists, is the trace itself, or cannot be written.
    """
    path = trace.info.path if isinstance(trace, Trace) else trace
    check_target(output, overwrite=overwrite, trace=path)
    if not isinstance(trace, Trace):
        trace = open_export(trace, progress=progress)
    request = Request(steps, phase, start_ms, end_ms)
    chosen = None if request.is_everything else choose_part(trace, request)
    database = database_of(trace)
    with replacing(output, overwrite=overwrite, trace=path) as beside:
        with extract_from(database, Path(output)) as extract:
            copier = Copier(database, extract, load_allowed(), chosen, scrub)
            copied = copier.copy()
            _say_where_it_is_from(extract, Path(path).name, chosen, copied.rows)
            dropped = _dropped(database, extract, copied)
            extract.save(beside)
        size = beside.stat().st_size
        finds_steps = chosen is None or _finds(chosen, beside)
    return Trimmed(
        source=os.fspath(path),
        path=os.fspath(output),
        steps=None if chosen is None else chosen.steps,
        finds_steps=finds_steps,
        is_scrubbed=scrub,
        rows=copied.rows,
        dropped=dropped,
        emptied=tuple(copied.emptied),
        replaced=copied.replaced,
        bytes_before=database.path.stat().st_size,
        bytes_after=size,
    )


def _say_where_it_is_from(
    extract: Extract, source: str, chosen: Chosen | None, rows: Mapping[str, object]
) -> None:
    """The rows about the source go where the exporter tells its version."""
    table = next((name for name in META_TABLES if name in rows), None)
    if table is None:
        table = META_TABLES[0]
        name = Column("name", "TEXT", not_null=True)
        extract.create(table, [name, Column("value", "TEXT")])
    extract.change(f"DELETE FROM main.{table} WHERE name LIKE 'DERIVED!_%' ESCAPE '!'")
    part = "all of it" if chosen is None else tell_numbers(chosen.steps) or "a part of its time"
    told = f"{source}: {part}, by kernelscope {version('kernelscope')}"
    kept = None if chosen is None else chosen.kept
    extract.fill(f"INSERT INTO main.{table} (name, value) VALUES (?, ?)", derived_rows(told, kept))


def _finds(chosen: Chosen, output: Path) -> bool:
    """Whether the steps of the output are those that were chosen."""
    if chosen.kept is None:
        return True
    try:
        found = split_steps(open_export(output))
    except NotAnExport as error:
        raise StepError(
            "Nothing belongs to the chosen steps: no kernel can be tied to its API call.",
            hint="kernelscope doctor TRACE says what is missing; without a choice, all is kept.",
        ) from error
    return (found.method, found.frame.height) == (chosen.kept.method, chosen.kept.steps)


def _dropped(database: Database, extract: Extract, copied: Copied) -> dict[str, int]:
    """The tables of the source that are not in the output, with their rows."""
    names = sorted({table.name for table in database.tables.values()} - set(copied.rows))
    shown = (database.tables[name.casefold()] for name in names)
    counted = {
        table.name: int(
            extract.rows(f"SELECT count(*) FROM source.{schema.quote(table.name)}")[0][0]
        )
        for table in shown
        if not table.is_virtual
    }
    return {name: rows for name, rows in counted.items() if rows}
