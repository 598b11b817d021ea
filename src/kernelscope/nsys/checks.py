"""Whether an export holds GPU work at all, and which case it is if not.

Absence is never shown as zero: the three ways to have no kernels have different causes and
different cures.
"""

from __future__ import annotations

from kernelscope.api_names import GRAPH_LAUNCH, LAUNCH
from kernelscope.errors import NoKernels
from kernelscope.nsys import schema
from kernelscope.nsys.calls import call_names, count_calls
from kernelscope.nsys.database import Database, placeholders
from kernelscope.nsys.diagnostics import read_diagnostics

_GPU_TABLES = (schema.KERNEL, schema.GRAPH_TRACE)
_COPY_TABLES = (schema.MEMCPY, schema.MEMSET)
_MOST_TOLD = 3
_NODE_HINT = "Capture again with --cuda-graph-trace=node"


def check_has_gpu_work(database: Database) -> None:
    """Return if there are kernels or replays to look at.

    Raises:
        NoKernels: there are none, or CUDA graphs ran and left no rows.
    """
    if not any(_has_rows(database, table) for table in _GPU_TABLES):
        raise _no_gpu_rows(database)
    if _has_rows(database, schema.GRAPH_TRACE) or _has_graph_kernels(database):
        return
    launches, without_rows = _graph_launches(database)
    if 2 * without_rows > launches:
        raise NoKernels(
            f"{database.path}: {without_rows:,} of {launches:,} CUDA graph launches left no "
            "rows, so the work inside them is missing: the capture recorded graphs as a whole "
            "and this exporter does not write them.",
            hint=f"{_NODE_HINT}, or export the report with nsys 2024.2 or newer to see how long "
            "the replays took.",
        )


def _has_rows(database: Database, name: str) -> bool:
    table = schema.find(database, name)
    return table is not None and bool(
        database.rows(f"SELECT 1 FROM {schema.quote(table.name)} LIMIT 1")
    )


def _has_graph_kernels(database: Database) -> bool:
    """Quick to find where there are any; a full scan otherwise, so ask for launches first."""
    if not call_names(database, GRAPH_LAUNCH):
        return True
    if not schema.has_column(database, schema.KERNEL, "graphNodeId"):
        return False
    return bool(
        database.rows(
            f"SELECT 1 FROM {schema.KERNEL} WHERE graphNodeId IS NOT NULL AND graphNodeId <> 0"
            " LIMIT 1"
        )
    )


def _graph_launches(database: Database) -> tuple[int, int]:
    """How many graph launches were traced, and how many of them have no GPU rows."""
    names = call_names(database, GRAPH_LAUNCH)
    if not names:
        return 0, 0
    gpu_rows = " UNION ".join(
        f"SELECT correlationId, COALESCE(globalPid, 0) >> 24 FROM {table}"
        for table in (schema.KERNEL, *_COPY_TABLES)
        if schema.has_column(database, table, "correlationId")
    )
    missing = (
        f"(correlationId, COALESCE(globalTid, 0) >> 24) NOT IN ({gpu_rows})" if gpu_rows else "1"
    )
    ((launches, without_rows),) = database.rows(
        f"SELECT count(*), total({missing}) FROM {schema.RUNTIME}"
        f" WHERE correlationId IS NOT NULL AND nameId IN ({placeholders(names)})",
        *names,
    )
    return int(launches), int(without_rows)


def _no_gpu_rows(database: Database) -> NoKernels:
    launches = count_calls(database, LAUNCH)
    graphs = count_calls(database, GRAPH_LAUNCH)
    if launches:
        return NoKernels(
            f"{database.path}: no GPU kernels although {launches:,} launch calls "
            f"({graphs:,} of them graph launches) were traced.{_diagnostics(database)}",
            hint="Likely causes: the process was killed before the profiler could flush, another "
            "CUPTI client was active, or nsys is too old for the driver. Let the process exit by "
            "itself and use an nsys as new as the driver.",
        )
    if any(_has_rows(database, table) for table in _COPY_TABLES):
        return NoKernels(
            f"{database.path}: memory copies but no GPU kernels.{_diagnostics(database)}",
            hint="The capture range held no model step. Open it around generation: start_profile "
            "and stop_profile, or --capture-range=cudaProfilerApi with "
            "--profiler-config.profiler cuda.",
        )
    return NoKernels(
        f"{database.path}: no CUDA work was recorded, neither kernels nor launch calls."
        f"{_diagnostics(database)}",
        hint="Capture with '-t cuda,nvtx --trace-fork-before-exec=true' and "
        "VLLM_WORKER_MULTIPROC_METHOD=spawn, so that vLLM's worker process is traced.",
    )


def _diagnostics(database: Database) -> str:
    """Warnings and errors that nsys itself recorded, shortened."""
    texts = [found.shortened.rstrip(".") for found in read_diagnostics(database)[:_MOST_TOLD]]
    return f" nsys recorded: {'; '.join(texts)}." if texts else ""
