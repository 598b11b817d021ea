"""The rows of an export, as contract frames, read in row ranges by several threads."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from threading import Lock
from typing import Any, TypeVar

import polars as pl

from kernelscope import frames
from kernelscope.inspection import Inspection
from kernelscope.nsys import schema
from kernelscope.nsys.checks import check_has_gpu_work
from kernelscope.nsys.database import Database, Table, explain, placeholders
from kernelscope.nsys.inspection import inspect
from kernelscope.trace import Progress

T = TypeVar("T")

# Large enough that a query's start-up is lost in it, small enough that a piece is a few MB.
_PIECE_ROWS = 250_000
# A file may number its rows from anywhere to anywhere; it must not make us loop for ever.
_MOST_PIECES = 4_096
_STRINGS_PER_QUERY = 500

# Captures without process or device ids exist (nullable columns): those rows share number 0.
# A process's global id has zeros where a thread's has the thread.
_CHANGES = {
    "process": pl.col("process").fill_null(0) & ~0xFFFFFF,
    "thread": pl.col("thread").fill_null(0),
    "device": pl.col("device").fill_null(0),
    "graph_node": pl.col("graph_node").replace(0, None),
    "original_node": pl.col("original_node").replace(0, None),
    "bytes": pl.col("bytes").fill_null(0),
}

# NVTX event types: push/pop and start/end ranges, and ranges imported from text logs.
_RANGE_TYPES = (59, 60, 70, 71)


@dataclass(frozen=True)
class NsysSource:
    """The tables of one nsys SQLite export; implements :class:`kernelscope.trace.Source`."""

    database: Database
    progress: Progress | None = None
    threads: int = min(4, os.cpu_count() or 1)

    def map_rows(
        self, table: str, columns: Sequence[str], function: Callable[[pl.DataFrame], T]
    ) -> list[T]:
        """See :meth:`kernelscope.trace.Trace.map_rows`."""
        _, fields = schema.FIELDS[table]
        found = schema.find_contract(self.database, table)
        if found is None:
            return []
        contract = frames.subset(frames.TABLES[table], columns)
        query = (
            f"SELECT {schema.select_list(found, fields, columns)} FROM {schema.quote(found.name)}"
        )
        pieces = list(self._pieces(found))
        counter = _Counter(self.progress, pieces) if table == "kernels" else None

        def read(piece: _Piece) -> T:
            rows = self._conform(self.database.frame(query + piece.where), contract)
            if counter:
                counter.advance(piece)
            return function(rows)

        with ThreadPoolExecutor(self.threads) as pool:
            return list(pool.map(read, pieces))

    def _pieces(self, table: Table) -> Iterator[_Piece]:
        if not table.has_rowid:
            yield _Piece("", 0)
            return
        name = schema.quote(table.name)
        # Two queries in one: SQLite answers min or max alone from the tree, both by a scan.
        ((first, last),) = self.database.rows(
            f"SELECT (SELECT min(rowid) FROM {name}), (SELECT max(rowid) FROM {name})"
        )
        if first is None:
            return
        size = max(_PIECE_ROWS, -(-(last - first + 1) // _MOST_PIECES))
        for begin in range(first, last + 1, size):
            end = min(begin + size - 1, last)
            yield _Piece(f" WHERE rowid BETWEEN {begin} AND {end}", end - begin + 1)

    def _conform(self, rows: pl.DataFrame, contract: frames.Schema) -> pl.DataFrame:
        # Before the cast: text may hold bytes that are no UTF-8, and polars aborts over those.
        texts = rows.select(pl.selectors.by_dtype(pl.String, pl.Binary)).columns
        if texts:
            raise explain(self.database.path, f"there is text where numbers belong ({texts[0]})")
        try:
            return rows.cast(pl.Schema(contract)).with_columns(
                change for name, change in _CHANGES.items() if name in contract
            )
        except pl.exceptions.PolarsError as error:
            reason = f"a value does not fit its column ({error})"
            raise explain(self.database.path, reason) from error

    def ranges(self, prefix: str) -> pl.DataFrame:
        """See :meth:`kernelscope.trace.Trace.find_ranges`."""
        table = schema.find(self.database, schema.NVTX)
        if table is None:
            return frames.empty(frames.RANGES)
        rows = self._range_rows(table, prefix)
        try:
            return pl.DataFrame(rows, schema=dict(frames.RANGES), orient="row", strict=False)
        except pl.exceptions.PolarsError as error:
            reason = f"there is text where numbers belong (NVTX_EVENTS: {error})"
            raise explain(self.database.path, reason) from error

    def _range_rows(self, table: Table, prefix: str) -> list[tuple[Any, ...]]:
        """Labels stand in the row, or in StringIds for registered strings; both forms occur."""
        by_id = "textid" in table.columns and schema.find(self.database, schema.STRINGS)
        label = "COALESCE(n.text, s.value, '')" if by_id else "COALESCE(n.text, '')"
        join = "LEFT JOIN StringIds s ON n.text IS NULL AND s.id = n.textId" if by_id else ""
        return self.database.rows(
            f'SELECT n.start, n."end", COALESCE(n.globalTid, 0) & ~0xFFFFFF,'
            f" COALESCE(n.globalTid, 0), {label} AS label FROM NVTX_EVENTS n {join}"
            f" WHERE n.eventType IN {_RANGE_TYPES} AND n.start IS NOT NULL"
            f' AND (n."end" IS NULL OR n."end" >= n.start)'
            f" AND substr(label, 1, ?) = ? ORDER BY n.start",
            len(prefix),
            prefix,
        )

    def strings(self, ids: Collection[int]) -> dict[int, str]:
        """See :class:`kernelscope.trace.Source`."""
        texts = {number: f"#{number}" for number in ids}
        if schema.find(self.database, schema.STRINGS) is None:
            return texts
        wanted = list(texts)
        for at in range(0, len(wanted), _STRINGS_PER_QUERY):
            some = wanted[at : at + _STRINGS_PER_QUERY]
            found = self.database.rows(
                f"SELECT id, value FROM StringIds WHERE id IN ({placeholders(some)})", *some
            )
            texts.update((number, str(value)) for number, value in found if value is not None)
        return texts

    def inspect(self) -> Inspection:
        """See :meth:`kernelscope.trace.Trace.inspect`."""
        return inspect(self.database)

    def check_has_work(self) -> None:
        """See :class:`kernelscope.trace.Source`."""
        check_has_gpu_work(self.database)


@dataclass(frozen=True)
class _Piece:
    """A part of a table: the SQL condition that selects it, and at most how many rows."""

    where: str
    rows: int


class _Counter:
    """Rows read so far, told to whoever wants to show it."""

    def __init__(self, progress: Progress | None, pieces: Sequence[_Piece]) -> None:
        self._progress = progress
        self._total = sum(piece.rows for piece in pieces)
        self._done = 0
        self._lock = Lock()

    def advance(self, piece: _Piece) -> None:
        with self._lock:
            self._done += piece.rows
            done = self._done
        if self._progress:
            self._progress(done, self._total)
