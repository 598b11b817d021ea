"""Which rows of a table belong to what is kept, as SQL conditions.

They look at temporary tables that :mod:`kernelscope.trimming.copying` fills: ``run`` (kept calls),
``span`` (time of kept steps), ``other_label`` (labels that are not kept), and from what has been
copied so far ``process``, ``stream`` and ``node``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from kernelscope.nsys.database import Table
from kernelscope.nsys.schema import quote

# NVTX: push/pop and start/end ranges and those imported from text logs; marks.
_RANGES = "(59, 60, 70, 71)"
_MARK = 34
_FOREVER = 2**63 - 1


@dataclass(frozen=True)
class Selection:
    """What is kept.

    Attributes:
        is_part: whether some steps were chosen; otherwise all are kept.
        is_scrubbed: whether rows of unrelated processes are left out.
        has_strays: whether some work has no call that launched it.
    """

    is_part: bool
    is_scrubbed: bool
    has_strays: bool


def condition(rows: str, table: Table, selection: Selection) -> str:
    """The SQL condition for one kind of rows (the word in ``tables.toml``)."""
    return _KINDS[rows](table, selection)


def column(table: Table, *names: str) -> str:
    """The first of these columns that the table has, as an integer; NULL if it has none."""
    for name in names:
        found = table.columns.get(name.casefold())
        if found is not None:
            return f"CAST({quote(found.name)} AS INTEGER)"
    return "NULL"


def process(table: Table) -> str:
    """Nsys's id of a row's process, without its thread bits; 0 where the capture has none."""
    return f"(coalesce({column(table, 'globalPid', 'globalTid')}, 0) >> 24)"


def _is_kept_call(table: Table) -> str:
    correlation = column(table, "correlationId")
    return (
        f"coalesce((SELECT last FROM temp.run WHERE process = {process(table)}"
        f" AND first <= {correlation} ORDER BY first DESC LIMIT 1) >= {correlation}, 0)"
    )


def _is_in_time(start: str, end: str) -> str:
    return (
        f"coalesce((SELECT end_ns FROM temp.span WHERE start_ns <= {end}"
        f" ORDER BY start_ns DESC LIMIT 1) >= {start}, 0)"
    )


def _everything(table: Table, selection: Selection) -> str:
    del table, selection
    return "1"


def _work(table: Table, selection: Selection) -> str:
    """Work of kept calls, and in the time of kept steps work without any call."""
    if not selection.is_part:
        return "1"
    if not selection.has_strays:
        return _is_kept_call(table)
    called = f"({process(table)}, coalesce({column(table, 'correlationId')}, -1)) IN temp.call"
    in_time = _is_in_time(column(table, "start"), column(table, "end"))
    return f"CASE WHEN {_is_kept_call(table)} THEN 1 WHEN {in_time} THEN NOT ({called}) ELSE 0 END"


def _calls(table: Table, selection: Selection) -> str:
    return _is_kept_call(table) if selection.is_part else "1"


def _ranges(table: Table, selection: Selection) -> str:
    """Kept labels, other ranges that overlap the kept steps, and names of domains and threads."""
    kind, thread = column(table, "eventType"), column(table, "globalTid")
    start, end = column(table, "start"), column(table, "end")
    parts = [_of_kept_process(table, selection)]
    if selection.is_part:
        until = f"coalesce({end}, CASE {kind} WHEN {_MARK} THEN {start} ELSE {_FOREVER} END)"
        is_other = f"({thread}, {start}) IN temp.other_label"
        parts.append(
            f"CASE WHEN {kind} IN {_RANGES} THEN {_is_in_time(start, until)} AND NOT ({is_other})"
            f" WHEN {kind} = {_MARK} THEN {_is_in_time(start, start)} ELSE 1 END"
        )
    return " AND ".join(parts)


def _of_kept_process(table: Table, selection: Selection) -> str:
    return f"{process(table)} IN temp.process" if selection.is_scrubbed else "1"


def _threads(table: Table, selection: Selection) -> str:
    """Threads of kept processes whose names look like names of threads."""
    if not selection.is_scrubbed:
        return "1"
    name = (
        f"(SELECT CAST(value AS BLOB) FROM source.StringIds WHERE id = {column(table, 'nameId')})"
    )
    return f"{_of_kept_process(table, selection)} AND told_process({name}) = CAST({name} AS TEXT)"


def _pids(table: Table, selection: Selection) -> str:
    """Rows that name a process by the operating system's id."""
    pid = column(table, "processId", "pid")
    return f"{pid} IN (SELECT id & 0xFFFFFF FROM temp.process)" if selection.is_scrubbed else "1"


def _streams(table: Table, selection: Selection) -> str:
    """Streams with work; a process may have made thousands that it never used."""
    if not selection.is_part and not selection.is_scrubbed:
        return "1"
    key = (column(table, name) for name in ("processId", "contextId", "streamId"))
    return f"({', '.join(key)}) IN temp.stream"


def _nodes(table: Table, selection: Selection) -> str:
    """The making of the graph nodes that ran, if that is not too much."""
    if not selection.is_part and not selection.is_scrubbed:
        return "1"
    return f"{column(table, 'graphNodeId')} IN temp.node"


def _messages(table: Table, selection: Selection) -> str:
    """Known messages about a kept process, or about none."""
    if not selection.is_scrubbed:
        return "1"
    text = f"CAST({quote('text')} AS BLOB)"
    about = f"({process(table)} & 0xFFFFFF = 0 OR {process(table)} IN temp.process)"
    return f"told_message({text}) IS NOT NULL AND {about}"


def _facts(table: Table, selection: Selection) -> str:
    """Rows of name and value with a name that is on the list."""
    if not selection.is_scrubbed:
        return "1"
    return f"told_{table.name.casefold()}(CAST({quote('name')} AS BLOB)) IS NOT NULL"


_KINDS: Mapping[str, Callable[[Table, Selection], str]] = {
    "all": _everything,
    "work": _work,
    "calls": _calls,
    "ranges": _ranges,
    "processes": _of_kept_process,
    "threads": _threads,
    "pids": _pids,
    "streams": _streams,
    "nodes": _nodes,
    "messages": _messages,
    "facts": _facts,
}
