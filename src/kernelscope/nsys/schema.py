"""What one export has: its tables and columns, and how they map to our contracts.

The only home of facts that differ between nsys versions. Nothing here looks at a version
number: the file is asked which tables and columns it has, because the exporter's version is not
the capture's, and columns come and go between minor versions.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from kernelscope.errors import MissingTable
from kernelscope.nsys.database import Database, Table

KERNEL = "CUPTI_ACTIVITY_KIND_KERNEL"
MEMCPY = "CUPTI_ACTIVITY_KIND_MEMCPY"
MEMSET = "CUPTI_ACTIVITY_KIND_MEMSET"
RUNTIME = "CUPTI_ACTIVITY_KIND_RUNTIME"
GRAPH_TRACE = "CUPTI_ACTIVITY_KIND_GRAPH_TRACE"
GRAPH_NODES = "CUDA_GRAPH_NODE_EVENTS"
# Up to 2023.4 the rows of nodes stood here; since then, in the same table, those of graphs.
OLD_GRAPH_NODES = "CUDA_GRAPH_EVENTS"
NVTX = "NVTX_EVENTS"
STRINGS = "StringIds"

# What a folder export is asked for: every table that is read here or may stand in a shared trace.
FOLDER_TABLES = (
    KERNEL,
    MEMCPY,
    MEMSET,
    RUNTIME,
    GRAPH_TRACE,
    GRAPH_NODES,
    OLD_GRAPH_NODES,
    NVTX,
    STRINGS,
    "ANALYSIS_DETAILS",
    "CUPTI_ACTIVITY_KIND_CUDA_EVENT",
    "CUPTI_ACTIVITY_KIND_SYNCHRONIZATION",
    "DIAGNOSTIC_EVENT",
    "EXPORT_META_DATA",
    "META_DATA_CAPTURE",
    "META_DATA_EXPORT",
    "PROCESSES",
    "TARGET_INFO_CUDA_CONTEXT_INFO",
    "TARGET_INFO_CUDA_DEVICE",
    "TARGET_INFO_CUDA_STREAM",
    "TARGET_INFO_GPU",
    "TARGET_INFO_SYSTEM_ENV",
    "ThreadNames",
)

# Tables of nvprof's databases, which are SQLite too and look alike from afar.
NVPROF_TABLES = ("CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL", "CUPTI_ACTIVITY_KIND_MARKER")


@dataclass(frozen=True)
class Field:
    """Where a contract column comes from: the first of ``columns`` that the file has.

    Where the file has none of them the value is null, unless there is no result without it.
    """

    columns: tuple[str, ...]
    required: bool = False


_ACTIVITY: Mapping[str, Field] = {
    "start_ns": Field(("start",), required=True),
    "end_ns": Field(("end",), required=True),
    "process": Field(("globalPid",)),
    "device": Field(("deviceId",)),
    "context": Field(("contextId",)),
    "stream": Field(("streamId",)),
    "correlation_id": Field(("correlationId",)),
}
_GRAPH_NODE: Mapping[str, Field] = {"graph_node": Field(("graphNodeId",))}

FIELDS: Mapping[str, tuple[str, Mapping[str, Field]]] = {
    "kernels": (
        KERNEL,
        {
            **_ACTIVITY,
            **_GRAPH_NODE,
            "name_id": Field(("demangledName", "shortName"), required=True),
            "grid_x": Field(("gridX",)),
            "grid_y": Field(("gridY",)),
            "grid_z": Field(("gridZ",)),
            "block_x": Field(("blockX",)),
            "block_y": Field(("blockY",)),
            "block_z": Field(("blockZ",)),
        },
    ),
    "copies": (
        MEMCPY,
        {
            **_ACTIVITY,
            **_GRAPH_NODE,
            "bytes": Field(("bytes",)),
            "copy_kind": Field(("copyKind",)),
        },
    ),
    "sets": (MEMSET, {**_ACTIVITY, **_GRAPH_NODE, "bytes": Field(("bytes",))}),
    "graph_replays": (
        GRAPH_TRACE,
        {
            **_ACTIVITY,
            "graph_id": Field(("graphId",)),
            "graph_exec_id": Field(("graphExecId",)),
        },
    ),
    "api_calls": (
        RUNTIME,
        {
            "start_ns": Field(("start",), required=True),
            "end_ns": Field(("end",), required=True),
            "process": Field(("globalTid",)),
            "thread": Field(("globalTid",)),
            "correlation_id": Field(("correlationId",)),
            "name_id": Field(("nameId",)),
        },
    ),
    "graph_nodes": (
        GRAPH_NODES,
        {
            "start_ns": Field(("start",), required=True),
            "process": Field(("globalTid",)),
            "thread": Field(("globalTid",)),
            "graph_node": Field(("graphNodeId",)),
            "original_node": Field(("originalGraphNodeId",)),
        },
    ),
}
"""Contract name -> (nsys table, contract column -> where it comes from)."""


def find(database: Database, name: str) -> Table | None:
    """The table or view of that name, or None; lazily absent tables have no rows."""
    return database.tables.get(name.casefold())


def find_contract(database: Database, contract: str) -> Table | None:
    """The table behind a contract, or None; graph nodes have an older home too."""
    found = find(database, FIELDS[contract][0])
    is_old = contract == "graph_nodes" and has_column(database, OLD_GRAPH_NODES, "graphNodeId")
    return find(database, OLD_GRAPH_NODES) if found is None and is_old else found


def has_column(database: Database, table: str, column: str) -> bool:
    """Whether the file has that column in that table."""
    found = find(database, table)
    return found is not None and column.casefold() in found.columns


def select_list(table: Table, fields: Mapping[str, Field], columns: Iterable[str]) -> str:
    """The SQL select list that turns nsys's columns into ours.

    Raises:
        MissingTable: a column is missing without which there is no result.
    """
    return ", ".join(f"{expression(table, fields[name])} AS {name}" for name in columns)


def expression(table: Table, field: Field) -> str:
    """The SQL expression for a contract column of that table.

    Raises:
        MissingTable: there is no result without it, and it is missing.
    """
    for candidate in field.columns:
        column = table.columns.get(candidate.casefold())
        if column is not None:
            return _as_integer(column.name, column.declared_type)
    if field.required:
        raise MissingTable(
            f"The table {table.name} has no column {' or '.join(field.columns)}.",
            hint="Export the report again without filters: nsys export --type sqlite.",
        )
    return "NULL"


def _as_integer(name: str, declared_type: str) -> str:
    """The column, cast where its declaration does not already make its numbers integers."""
    quoted = quote(name)
    return quoted if "INT" in declared_type.upper() else f"CAST({quoted} AS INTEGER)"


def quote(name: str) -> str:
    """An SQL identifier; names come from the file and may hold anything."""
    return '"' + name.replace('"', '""') + '"'
