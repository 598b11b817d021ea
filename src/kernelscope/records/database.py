"""Opening a record: created, migrated, or refused; one transaction per visit."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Literal

from kernelscope.errors import RecordError
from kernelscope.records.schema import APPLICATION_ID, MIGRATIONS, VERSION

if TYPE_CHECKING:
    import sqlite_utils

_BUSY_SECONDS = 60.0
"""How long a writer waits for another one; one run takes a few hundredths of a second."""


class _Connection(sqlite3.Connection):
    """Leaves the end of a transaction to us: sqlite-utils 3 commits after each of its calls."""

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
        /,
    ) -> Literal[False]:
        return False


@contextmanager
def writing(path: str | os.PathLike[str]) -> Iterator[sqlite_utils.Database]:
    """The record, made or brought up to date, in one transaction: all is kept or nothing.

    Raises:
        RecordError: see :func:`check_record`; or it cannot be written.
    """
    # Imported on use: it brings in pandas where that is installed, half a second.
    import sqlite_utils

    path = Path(path)
    with _explained(path), _connected(path) as connection:
        connection.execute("PRAGMA foreign_keys = ON")
        connection.execute("BEGIN IMMEDIATE")
        try:
            _migrate(path, connection)
            yield sqlite_utils.Database(connection, execute_plugins=False)
            connection.execute("COMMIT")
        finally:
            # Still open only if something ended it early.
            if connection.in_transaction:
                connection.execute("ROLLBACK")


@contextmanager
def reading(path: str | os.PathLike[str]) -> Iterator[sqlite3.Connection]:
    """The record, to be read; one that an older release wrote is brought up to date first.

    Raises:
        RecordError: there is none; see :func:`check_record`.
    """
    path = Path(path)
    if not path.exists():
        raise RecordError(f"{path} does not exist.", hint="kernelscope record writes one.")
    if check_record(path) < VERSION:
        with writing(path):
            pass
    with _explained(path), _connected(path, read_only=True) as connection:
        yield connection


def check_record(path: str | os.PathLike[str]) -> int:
    """The version of a record's tables; 0 if there is none yet, and one may be made here.

    Raises:
        RecordError: it is no database, another one, or of a later release.
    """
    path = Path(path)
    if not path.exists():
        return 0
    if not path.is_file():
        raise RecordError(f"{path} is not a regular file.", hint="Choose another name.")
    with _explained(path), _connected(path, read_only=True) as connection:
        return _version(path, connection)


def _migrate(path: Path, connection: sqlite3.Connection) -> None:
    version = _version(path, connection)
    for statements in MIGRATIONS[version:]:
        for statement in statements:
            connection.execute(statement)
    if version < VERSION:
        connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
        connection.execute(f"PRAGMA user_version = {VERSION}")


def _version(path: Path, connection: sqlite3.Connection) -> int:
    ((application,),) = connection.execute("PRAGMA application_id").fetchall()
    ((version,),) = connection.execute("PRAGMA user_version").fetchall()
    ((tables,),) = connection.execute("SELECT count(*) FROM sqlite_master").fetchall()
    if not tables and not version and not application:
        return 0
    if application != APPLICATION_ID:
        raise RecordError(
            f"{path} is another database, not a record of runs.", hint="Choose another name."
        )
    if not 0 < version <= VERSION:
        raise RecordError(
            f"{path} has tables of version {version}; this kernelscope knows {VERSION}.",
            hint="Use the kernelscope that wrote it, or a newer one.",
        )
    return int(version)


@contextmanager
def _connected(path: Path, *, read_only: bool = False) -> Iterator[sqlite3.Connection]:
    uri = f"{path.absolute().as_uri()}?mode={'ro' if read_only else 'rwc'}"
    connection = sqlite3.connect(
        uri, uri=True, timeout=_BUSY_SECONDS, isolation_level=None, factory=_Connection
    )
    try:
        yield connection
    finally:
        connection.close()


@contextmanager
def _explained(path: Path) -> Iterator[None]:
    try:
        yield
    except sqlite3.Error as error:
        raise RecordError(
            f"{path} cannot be used as a record of runs: {error}.",
            hint="Give a file that kernelscope record wrote, or a new name in a folder with room.",
        ) from error
