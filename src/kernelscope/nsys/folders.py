"""A ``parquetdir`` or ``arrowdir`` export: a folder with one file per table.

The tables have the names and columns of the SQLite export, so those that are known are copied into
a temporary SQLite file, batch by batch, and everything after that is as for any export.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from kernelscope.errors import NotAnExport
from kernelscope.nsys import files
from kernelscope.nsys.database import fill_table
from kernelscope.nsys.schema import FOLDER_TABLES
from kernelscope.nsys.temporary import TemporaryExport

if TYPE_CHECKING:
    import pyarrow

_SUFFIXES = (".parquet", ".arrow")
_BATCH_ROWS = 131_072
_READ_BYTES = 1 << 20
_COLUMN_NAME = re.compile(r"\w+", re.ASCII)


def is_folder_export(path: Path) -> bool:
    """Whether this is a folder that holds the file of at least one table."""
    try:
        return any(True for _ in _table_files(path))
    except OSError:
        return False  # whoever opens the path as a file says why


def load_folder(folder: Path) -> TemporaryExport:
    """Copy the tables of such a folder into a temporary SQLite file.

    Raises:
        NotAnExport: a file of a table is empty, damaged, or of another kind than its name says.
        ExportError: the tables cannot be copied, or the disk for temporary files is full.
    """
    exported = TemporaryExport.reserve("export.sqlite")
    for name, path in _table_files(folder):
        files.read_header(path)
        with exported.told_as(path):
            fill_table(exported.path, name, _read(path))
    return exported


def _table_files(folder: Path) -> Iterator[tuple[str, Path]]:
    """The files of tables that are known, one per table."""
    for name in FOLDER_TABLES:
        paths = (folder / f"{name}{suffix}" for suffix in _SUFFIXES)
        found = next((path for path in paths if path.exists()), None)
        if found is not None:
            yield name, found


def _read(path: Path) -> Iterator[pyarrow.Table]:
    """The rows of one file in pieces; the first has none, so that an empty table is one too."""
    import pyarrow

    with _explained(path):
        batches = _parquet_batches(path) if path.suffix == ".parquet" else _arrow_batches(path)
        for batch in batches:
            columns = {
                field.name: _plain(column)
                for field, column in zip(batch.schema, batch.columns, strict=True)
                if _is_plain(field)
            }
            yield pyarrow.table(columns)


def _parquet_batches(path: Path) -> Iterator[pyarrow.RecordBatch]:
    from pyarrow import parquet

    # Without these two, a whole row group is held in memory.
    with parquet.ParquetFile(path, pre_buffer=False, buffer_size=_READ_BYTES) as file:
        schema = file.schema_arrow
        yield from schema.empty_table().to_batches()
        names = [field.name for field in schema if _is_plain(field)]
        yield from file.iter_batches(_BATCH_ROWS, columns=names)


def _arrow_batches(path: Path) -> Iterator[pyarrow.RecordBatch]:
    import pyarrow

    with pyarrow.memory_map(str(path)) as file, pyarrow.ipc.open_stream(file) as stream:
        yield from stream.schema.empty_table().to_batches()
        for batch in stream:
            for at in range(0, batch.num_rows, _BATCH_ROWS):
                yield batch.slice(at, _BATCH_ROWS)


def _is_plain(field: pyarrow.Field) -> bool:
    """Whether a column holds numbers or text; extension types and nested columns are left out."""
    from pyarrow import types

    kind = field.type.value_type if types.is_dictionary(field.type) else field.type
    tests = (types.is_integer, types.is_boolean, types.is_floating, types.is_string)
    is_known = any(test(kind) for test in (*tests, types.is_large_string))
    return is_known and _COLUMN_NAME.fullmatch(field.name) is not None


def _plain(column: pyarrow.Array) -> pyarrow.Array:
    """The column in a type that SQLite has: signed 64-bit numbers, as SQLite exports have them."""
    import pyarrow
    from pyarrow import types

    if types.is_dictionary(column.type):
        column.validate(full=True)
        column = column.dictionary_decode()
    if types.is_uint64(column.type):
        return column.view(pyarrow.int64())
    if types.is_integer(column.type) or types.is_boolean(column.type):
        return column.cast(pyarrow.int64())
    if types.is_floating(column.type):
        return column.cast(pyarrow.float64())
    return _text(column)


def _text(column: pyarrow.Array) -> pyarrow.Array:
    """Texts, where bytes that are no UTF-8 become replacement characters."""
    import pyarrow

    raw = column.cast(pyarrow.large_binary())
    raw.validate(full=True)  # offsets of an Arrow file may point anywhere
    try:
        column.validate(full=True)
    except pyarrow.ArrowInvalid:
        texts = (None if one is None else one.decode("utf-8", "replace") for one in raw.to_pylist())
        return pyarrow.array(texts, pyarrow.string())
    return column.cast(pyarrow.string())


@contextmanager
def _explained(path: Path) -> Iterator[None]:
    """What pyarrow says of a file, told as an error that names it."""
    import pyarrow

    try:
        yield
    except (pyarrow.ArrowException, OSError, EOFError, MemoryError) as error:
        reason = (str(error).splitlines() or [type(error).__name__])[0]
        raise NotAnExport(
            f"{path} is damaged or not what its name says: {reason}",
            hint="Export again: nsys export --type sqlite, with --force-overwrite true.",
        ) from error
