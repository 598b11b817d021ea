"""Facts about a capture from its small tables; an allow-list, because they hold secrets too.

META_DATA_CAPTURE and TARGET_INFO_SYSTEM_ENV carry environment variables, command lines, user
and host names. Only the keys named here are read.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TypeGuard

from kernelscope.findings import Finding
from kernelscope.nsys.database import Database, placeholders
from kernelscope.nsys.derived import META_TABLES, read_derived
from kernelscope.nsys.diagnostics import find_lost_data, read_diagnostics
from kernelscope.nsys.schema import NVTX, STRINGS, find, has_column, quote
from kernelscope.trace import Gpu, TraceInfo

SUPPORTED_MAJOR = 3
_EXPORT_KEYS = (
    "EXPORT_PRODUCT_VERSION",
    "EXPORT_SCHEMA_VERSION",
    "EXPORT_CONFIG_TIME_SHIFT",
    "EXPORT_PARAM_TIME_SHIFT",
)
_GRAPH_MODE_KEY = "CUDA_GRAPH_TRACE_OPTIONS:MODE"
_GPU_COLUMNS = (
    "name",
    "memoryBandwidth",
    "totalMemory",
    "smCount",
    "computeMajor",
    "computeMinor",
    "cuDevice",
)


def read_info(database: Database) -> TraceInfo:
    """Versions, GPUs, processes and capture options of an export."""
    facts = _export_facts(database)
    schema = facts.get("EXPORT_SCHEMA_VERSION")
    diagnostics = read_diagnostics(database)
    return TraceInfo(
        path=str(database.path),
        exporter=facts.get("EXPORT_PRODUCT_VERSION"),
        schema=schema,
        graph_trace=_graph_trace(database),
        window_end_ns=_window_end_ns(database, facts),
        started_utc_ns=_started_utc_ns(database),
        gpus=_gpus(database),
        gpu_of_device=_gpu_of_device(database),
        process_names=_process_names(database),
        diagnostics=diagnostics,
        findings=(*_findings(database, schema), *find_lost_data(diagnostics)),
        derived=read_derived(database),
    )


def _export_facts(database: Database) -> dict[str, str]:
    for table in META_TABLES:
        if has_column(database, table, "value"):
            rows = database.rows(
                f"SELECT name, value FROM {table} WHERE value IS NOT NULL"
                f" AND name IN ({placeholders(_EXPORT_KEYS)})",
                *_EXPORT_KEYS,
            )
            return {name: str(value) for name, value in rows}
    return {}


def _graph_trace(database: Database) -> str:
    """The key has a process prefix up to 2025.5 and none in 2026.2, so match its end."""
    if not has_column(database, "META_DATA_CAPTURE", "value"):
        return "unknown"
    rows = database.rows(
        "SELECT DISTINCT lower(value) FROM META_DATA_CAPTURE WHERE name LIKE ?",
        f"%{_GRAPH_MODE_KEY}",
    )
    modes = {mode for (mode,) in rows}
    return modes.pop() if modes in ({"node"}, {"graph"}) else "unknown"


def _window_end_ns(database: Database, facts: Mapping[str, str]) -> int | None:
    """The end of the capture on the clock of its events, which ``--ts-normalize`` shifts."""
    if not has_column(database, "ANALYSIS_DETAILS", "duration"):
        return None
    ((duration,),) = database.rows("SELECT max(duration) FROM ANALYSIS_DETAILS")
    if not isinstance(duration, int):
        return None
    shifts = (facts.get("EXPORT_CONFIG_TIME_SHIFT"), facts.get("EXPORT_PARAM_TIME_SHIFT"))
    return duration + next((int(ns) for ns in shifts if _is_number(ns) and int(ns)), 0)


def _started_utc_ns(database: Database) -> int | None:
    """When the capture began; exports of some versions, and parts of a trace, do not say."""
    if not has_column(database, "TARGET_INFO_SESSION_START_TIME", "utcEpochNs"):
        return None
    ((started_ns,),) = database.rows("SELECT min(utcEpochNs) FROM TARGET_INFO_SESSION_START_TIME")
    return started_ns if isinstance(started_ns, int) else None


def _is_number(text: str | None) -> TypeGuard[str]:
    return text is not None and text.removeprefix("-").isdecimal()


def _gpus(database: Database) -> tuple[Gpu, ...]:
    table = find(database, "TARGET_INFO_GPU")
    if table is None:
        return ()
    id_column = next((name for name in ("id", "deviceid") if name in table.columns), None)
    columns = [quote(name) if name.casefold() in table.columns else "NULL" for name in _GPU_COLUMNS]
    rows = database.rows(
        f"SELECT {id_column or 'rowid'}, {', '.join(columns)} FROM {table.name} ORDER BY 1"
    )
    return tuple(
        Gpu(
            id=gpu_id,
            name=str(name or "unknown GPU"),
            cuda_ordinal=ordinal,
            memory_bandwidth_bytes_per_s=bandwidth,
            memory_bytes=memory,
            multiprocessors=multiprocessors,
            compute_capability=None if major is None else f"{major}.{minor}",
        )
        for gpu_id, name, bandwidth, memory, multiprocessors, major, minor, ordinal in rows
        if isinstance(gpu_id, int)
    )


def _gpu_of_device(database: Database) -> tuple[tuple[int, int, int], ...]:
    if not has_column(database, "TARGET_INFO_CUDA_DEVICE", "gpuId"):
        return ()
    rows = database.rows(
        "SELECT DISTINCT pid, cudaId, gpuId FROM TARGET_INFO_CUDA_DEVICE"
        " WHERE (typeof(pid), typeof(cudaId), typeof(gpuId)) = ('integer', 'integer', 'integer')"
    )
    return tuple((pid, ordinal, gpu) for pid, ordinal, gpu in rows)


def _process_names(database: Database) -> tuple[tuple[int, str], ...]:
    if not has_column(database, "PROCESSES", "globalPid"):
        return ()
    rows = database.rows(
        "SELECT globalPid & ~0xFFFFFF, max(name) FROM PROCESSES"
        " WHERE globalPid IS NOT NULL AND name IS NOT NULL GROUP BY 1"
    )
    return tuple((int(process), str(name)) for process, name in rows)


def _findings(database: Database, schema: str | None) -> Iterator[Finding]:
    major = (schema or "").split(".")[0]
    if schema is None:
        message = "The export does not state its schema version; read as it is."
        yield Finding("exporter", "warning", message)
    elif not major.isdecimal() or int(major) > SUPPORTED_MAJOR:
        message = (
            f"Export schema {schema} is newer than the versions this release was tested with "
            f"({SUPPORTED_MAJOR}.x): check the numbers."
        )
        yield Finding("exporter", "warning", message)
    if find(database, STRINGS) is None:
        message = "The export has no StringIds table, so kernels have no names."
        action = "Export the report again without --tables: nsys export --type sqlite."
        yield Finding("names", "problem", message, action)
    if find(database, NVTX) is None:
        message = "The export has no NVTX ranges: it was captured without '-t nvtx'."
        yield Finding("steps", "warning", message)
