"""Reading Nsight Systems exports: all that knows nsys's tables is in this package."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

from kernelscope.errors import NotAnExport
from kernelscope.nsys import files, schema
from kernelscope.nsys.database import Database, open_database
from kernelscope.nsys.folders import is_folder_export, load_folder
from kernelscope.nsys.metadata import read_info
from kernelscope.nsys.report import export_report
from kernelscope.nsys.source import NsysSource
from kernelscope.nsys.temporary import TemporaryExport, TemporarySource
from kernelscope.trace import Progress, Trace

__all__ = ["database_of", "open_export", "read_export"]


def read_export(path: str | os.PathLike[str], *, progress: Progress | None = None) -> Trace:
    """Open an nsys export (2022.4 to 2026.x) for reading.

    The file is opened read-only and checked; its tables are read when they are asked for, so
    it must stay in place while the trace is in use. A folder of a ``parquetdir`` or ``arrowdir``
    export is copied into a temporary SQLite file first, and so is an ``.nsys-rep`` if ``nsys`` is
    on the path; the file is removed with the trace.

    Args:
        path: the ``.sqlite`` file, the folder of a ``parquetdir`` or ``arrowdir`` export, or an
            ``.nsys-rep``.
        progress: called with kernel rows read and expected, from reading threads.

    Raises:
        NotAnExport: the file is not there, unfinished, truncated or of another kind.
        MissingTable: a table or column is missing without which there is no result.
        NoKernels: the export holds no GPU kernels, or only graph replays that left no rows.
        ExportError: the file is locked or damaged.
    """
    trace = open_export(path, progress=progress)
    trace.source.check_has_work()
    return trace


def open_export(path: str | os.PathLike[str], *, progress: Progress | None = None) -> Trace:
    """Open an export whatever it holds; see :func:`read_export`.

    Raises:
        NotAnExport, ExportError: see :func:`read_export`.
    """
    path = Path(path)
    if is_folder_export(path):
        return _open_temporary(load_folder(path), path, progress)
    if files.is_report(path):
        return _open_temporary(export_report(path), path, progress)
    database = open_database(path)
    _check_is_nsys(path, set(database.tables))
    return Trace(read_info(database), NsysSource(database, progress))


def _open_temporary(exported: TemporaryExport, given: Path, progress: Progress | None) -> Trace:
    with exported.told_as(given):
        trace = open_export(exported.path, progress=progress)
    source = TemporarySource(trace.source, exported, given)
    return replace(trace, info=replace(trace.info, path=str(given)), source=source)


def database_of(trace: Trace) -> Database:
    """The SQLite file behind a trace; TypeError for a trace that has none."""
    source = trace.source
    if isinstance(source, TemporarySource):
        source = source.source
    if not isinstance(source, NsysSource):
        raise TypeError(source)
    return source.database


def _check_is_nsys(path: Path, tables: set[str]) -> None:
    if any(name.casefold() in tables for name in schema.NVPROF_TABLES):
        raise NotAnExport(
            f"{path} is an nvprof database, which has other tables.",
            hint="Capture with nsys, then: nsys export --type sqlite REPORT.nsys-rep",
        )
    known = {schema.STRINGS, schema.KERNEL, schema.RUNTIME, schema.GRAPH_TRACE, schema.NVTX}
    if not any(name.casefold() in tables for name in known):
        raise NotAnExport(
            f"{path} is an SQLite database but not an nsys export ({len(tables)} other tables).",
            hint="Give the file that nsys export --type sqlite wrote.",
        )
