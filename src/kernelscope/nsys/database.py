"""The SQLite file: opened read-only, small queries through sqlite3, large ones through ADBC.

The only module that knows a database driver. Every driver error leaves it as an
:class:`~kernelscope.errors.ExportError` that names the file.
"""

from __future__ import annotations

import os
import sqlite3
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Protocol

import adbc_driver_manager
import adbc_driver_sqlite
import polars as pl

from kernelscope.errors import ExportError, NotAnExport
from kernelscope.nsys import files

_BATCH_ROWS = "65536"
_BUSY_SECONDS = 5.0
_ADD = "adbc.ingest.mode.create_append"


class ArrowTable(Protocol):
    """Rows in any library's form that can be handed over as Arrow."""

    def __arrow_c_stream__(self) -> object:
        """A capsule with a stream of batches."""


@dataclass(frozen=True)
class Column:
    """A column as the file spells and declares it."""

    name: str
    declared_type: str
    not_null: bool = False
    is_key: bool = False


@dataclass(frozen=True)
class Table:
    """A table or view as the file spells it; columns by lower-case name."""

    name: str
    columns: Mapping[str, Column]
    has_rowid: bool
    is_virtual: bool = False


@dataclass(frozen=True)
class Database:
    """One SQLite file, open for as long as a query runs."""

    path: Path

    @cached_property
    def uri(self) -> str:
        """The path as an SQLite URI; ``?``, ``#`` and ``%`` in it are percent-encoded.

        A database in write-ahead-log mode would get ``-wal`` and ``-shm`` files beside it even
        when opened read-only; ``immutable`` prevents that, and is right while no log is pending.
        """
        options = "mode=ro"
        if files.uses_wal(self.path) and not self._has_pending_log():
            options += "&immutable=1"
        return f"{self.path.absolute().as_uri()}?{options}"

    def _has_pending_log(self) -> bool:
        log = Path(f"{self.path}-wal")
        return log.exists() and log.stat().st_size > 0

    @cached_property
    def tables(self) -> Mapping[str, Table]:
        """Every table and view, by lower-case name.

        Raises:
            ExportError: the file is damaged or locked.
        """
        found = self.rows(
            "SELECT name, type, sql FROM sqlite_master WHERE type IN ('table', 'view')"
        )
        return {name.casefold(): self._table(name, kind, sql) for name, kind, sql in found}

    def _table(self, name: str, kind: str, sql: str | None) -> Table:
        if kind == "view":
            self._check_ends(name)
        columns = self.rows('SELECT name, type, "notnull", pk FROM pragma_table_info(?)', name)
        made = " ".join((sql or "").casefold().split())
        named = {
            column.casefold(): Column(column, declared, bool(not_null), bool(key))
            for column, declared, not_null, key in columns
        }
        has_rowid = kind == "table" and "without rowid" not in made
        return Table(name, named, has_rowid, made.startswith("create virtual"))

    def _check_ends(self, view: str) -> None:
        """Return if a view does not recur: such a view may have rows without end."""
        recurs = False

        def authorize(action: int, *_: object) -> int:
            nonlocal recurs
            recurs = recurs or action == sqlite3.SQLITE_RECURSIVE
            return sqlite3.SQLITE_OK

        with self.explained(), closing(connect(self.uri)) as connection:
            connection.set_authorizer(authorize)
            quoted = view.replace('"', '""')
            with suppress(sqlite3.OperationalError):  # a broken view; whoever reads it says so
                connection.execute(f'EXPLAIN SELECT * FROM "{quoted}"')
        if recurs:
            raise explain(self.path, f"its view {view!r} is recursive, so it may have no end")

    def rows(self, sql: str, *parameters: object) -> list[tuple[Any, ...]]:
        """The rows of a small query. Text that is not UTF-8 gets replacement characters.

        Raises:
            ExportError: the file is damaged or locked.
        """
        with self.explained(), closing(connect(self.uri)) as connection:
            connection.text_factory = _decode
            return connection.execute(sql, parameters).fetchall()

    def frame(self, sql: str) -> pl.DataFrame:
        """The rows of a large query, through Arrow. Columns must be numbers or null.

        Safe to call from several threads at once; the interpreter lock is released meanwhile.

        Raises:
            ExportError: the file is damaged or locked.
        """
        with (
            self.explained(),
            adbc_driver_sqlite.connect(self.uri) as database,
            adbc_driver_manager.AdbcConnection(database) as connection,
            adbc_driver_manager.AdbcStatement(connection) as statement,
        ):
            statement.set_options(**{"adbc.sqlite.query.batch_rows": _BATCH_ROWS})
            statement.set_sql_query(sql)
            stream, _ = statement.execute_query()
            return pl.DataFrame(stream)

    @contextmanager
    def explained(self) -> Iterator[None]:
        """Errors of the drivers, told as errors that name the file."""
        try:
            yield
        except (sqlite3.Error, adbc_driver_manager.Error, pl.exceptions.PolarsError) as error:
            raise explain(self.path, str(error)) from error
        except UnicodeDecodeError as error:
            # sqlite3 failed at its own message, which quotes a damaged name.
            reason = error.object.decode(errors="replace")
            raise explain(self.path, reason) from error


def fill_table(path: Path, name: str, tables: Iterable[ArrowTable]) -> None:
    """Make a table in a database of our own out of Arrow tables of one schema; all or nothing.

    Raises:
        ExportError: the columns cannot stand in one table, or the disk is full.
    """
    with (
        Database(path).explained(),
        adbc_driver_sqlite.connect(str(path)) as database,
        adbc_driver_manager.AdbcConnection(database) as connection,
    ):
        connection.set_autocommit(False)
        for table in tables:
            with adbc_driver_manager.AdbcStatement(connection) as statement:
                statement.set_options(
                    **{"adbc.ingest.target_table": name, "adbc.ingest.mode": _ADD}
                )
                statement.bind_stream(table.__arrow_c_stream__())
                statement.execute_update()
        connection.commit()


def open_database(path: str | os.PathLike[str]) -> Database:
    """A database over an existing, complete SQLite file.

    Raises:
        NotAnExport: the file is not there, unfinished, truncated or of another kind.
    """
    path = Path(path)
    files.check_is_sqlite(path)
    return Database(path)


def connect(uri: str) -> sqlite3.Connection:
    """A connection in which nothing that a file defines can do harm.

    Functions inside a view or an index of the file must not run unless harmless, and its
    triggers not at all.
    """
    connection = sqlite3.connect(uri, uri=True, timeout=_BUSY_SECONDS, isolation_level=None)
    connection.execute("PRAGMA trusted_schema = OFF")
    if sys.version_info >= (3, 12):
        connection.setconfig(sqlite3.SQLITE_DBCONFIG_DEFENSIVE, True)
        connection.setconfig(sqlite3.SQLITE_DBCONFIG_ENABLE_TRIGGER, False)
    return connection


def explain(path: Path, reason: str) -> ExportError:
    """The error for what a driver said while it read ``path``."""
    lowered = reason.casefold()
    if "malformed" in lowered or "not a database" in lowered or "disk i/o" in lowered:
        return NotAnExport(
            f"{path} is damaged: SQLite says {reason!r}.",
            hint="Copy it again, or run nsys export again with --force-overwrite true.",
        )
    if "locked" in lowered or "busy" in lowered:
        return ExportError(
            f"{path} is locked by another program.",
            hint="Wait until nsys export has finished, or copy the file and read the copy.",
        )
    if "disk is full" in lowered:
        return ExportError(
            f"{path} cannot be read: the disk for temporary files is full.",
            hint="Set TMPDIR to a folder with room.",
        )
    return ExportError(
        f"{path} cannot be read: {reason}.",
        hint="Run nsys export again with --force-overwrite true; if it stays, report this file.",
    )


def placeholders(values: Sequence[object]) -> str:
    """``?, ?, ?`` for an SQL list of that many parameters."""
    return ", ".join("?" * len(values))


def _decode(raw: bytes) -> str:
    return raw.decode("utf-8", "replace")
