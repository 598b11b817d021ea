"""A new database made out of an export, row by row in SQL; the export stays as it is.

The export is attached read-only as ``source``, what is made of it is ``main``: a temporary
database that SQLite keeps in memory while it is small, and that is gone if nobody saves it.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kernelscope.nsys.database import Column, Database, connect
from kernelscope.nsys.schema import quote
from kernelscope.writing import cannot_write

_ENCODINGS = ("UTF-8", "UTF-16le", "UTF-16be")
# The kinds of column that SQLite knows, by what a declared type holds; the first match wins
# (https://www.sqlite.org/datatype3.html, section 3.1).
_AFFINITIES = (
    (("INT",), "INTEGER"),
    (("CHAR", "CLOB", "TEXT"), "TEXT"),
    (("REAL", "FLOA", "DOUB"), "REAL"),
    (("BLOB",), "BLOB"),
)


@dataclass(frozen=True)
class Extract:
    """A database being filled, which is to become ``output``."""

    connection: sqlite3.Connection
    output: Path

    def rows(self, sql: str, *parameters: object) -> list[tuple[Any, ...]]:
        """The rows of a small query; texts as bytes."""
        return self.connection.execute(sql, parameters).fetchall()

    def change(self, sql: str, *parameters: object) -> int:
        """Run one statement; gives how many rows it changed."""
        return self.connection.execute(sql, parameters).rowcount

    def fill(self, sql: str, rows: Iterable[Sequence[object]]) -> None:
        """Run one statement for each of these rows."""
        self.connection.executemany(sql, rows)

    def create(self, name: str, columns: Iterable[Column]) -> None:
        """An empty table. Its definition is made here: no SQL of the export is ever executed."""
        columns = list(columns)
        is_only_key = sum(column.is_key for column in columns) == 1
        made = ", ".join(_definition(column, is_only_key=is_only_key) for column in columns)
        self.connection.execute(f"CREATE TABLE main.{quote(name)} ({made})")

    def save(self, path: Path) -> None:
        """Write it to an empty file, without gaps: the same content gives the same bytes.

        Raises:
            OutputError: the file cannot be written.
        """
        try:
            self.connection.execute("VACUUM main INTO ?", (str(path),))
        except sqlite3.Error as error:
            raise cannot_write(self.output, str(error)) from error


@contextmanager
def extract_from(database: Database, output: Path) -> Iterator[Extract]:
    """An extract of an export that is to become ``output``.

    Raises:
        ExportError: the export is locked or damaged.
        OutputError: there is no room for the extract.
    """
    with database.explained(), closing(connect("")) as connection:
        connection.execute("PRAGMA page_size = 4096")
        connection.execute("PRAGMA journal_mode = OFF")
        ((encoding,),) = database.rows("PRAGMA encoding")
        if encoding in _ENCODINGS:
            connection.execute(f"PRAGMA encoding = '{encoding}'")
        connection.execute("ATTACH ? AS source", (database.uri,))
        connection.text_factory = bytes
        try:
            yield Extract(connection, output)
        except sqlite3.OperationalError as error:
            if "full" in str(error):
                raise cannot_write(output, "the disk for temporary files is full") from error
            raise


def define(extract: Extract, name: str, function: Callable[[bytes | None], str | None]) -> None:
    """Make a function of one text known to the SQL of an extract."""
    extract.connection.create_function(name, 1, function, deterministic=True)


def _definition(column: Column, *, is_only_key: bool) -> str:
    kind = affinity(column)
    # Any other kind of key would make an index, which exports do not have.
    is_rowid = column.is_key and is_only_key and kind == "INTEGER"
    parts = (quote(column.name), kind, "NOT NULL" * column.not_null, "PRIMARY KEY" * is_rowid)
    return " ".join(part for part in parts if part)


def affinity(column: Column) -> str:
    """What SQLite makes of the declared type, which may hold any text."""
    declared = column.declared_type.upper()
    for parts, kind in _AFFINITIES:
        if any(part in declared for part in parts):
            return kind
    return "NUMERIC" if declared else ""
