"""Makes the folder of a ``parquetdir`` or ``arrowdir`` export out of an SQLite export.

Ids are uint64 in those and ``isDiscrete`` is a bool (nsys 2023.4 and newer).
"""

import sqlite3
from contextlib import closing

import pyarrow as pa
from pyarrow import parquet

FORMS = ("parquet", "arrow")
_UNSIGNED = {
    "globalPid", "globalTid", "contextId", "streamId", "graphNodeId", "originalGraphNodeId"
}  # fmt: skip


def make_folder(path, form, rows_per_piece=1_000_000):
    """The folder beside ``path`` with one file per table."""
    folder = path.with_name(f"{path.stem}_{'pqt' if form == 'parquet' else 'arw'}dir")
    folder.mkdir()
    with closing(sqlite3.connect(path)) as database:
        tables = database.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall()
        for (name,) in tables:
            write_table(folder / f"{name}.{form}", _table(database, name), rows_per_piece)
    return folder


def write_table(path, table, rows_per_piece=1_000_000):
    """One file, in pieces of so many rows."""
    if path.suffix == ".parquet":
        parquet.write_table(table, path, row_group_size=rows_per_piece)
        return
    with pa.ipc.new_stream(path, table.schema) as stream:
        stream.write_table(table, rows_per_piece)


def _table(database, name):
    info = database.execute(f'PRAGMA table_info("{name}")').fetchall()
    schema = pa.schema([(column[1], _type(*column[1:3])) for column in info])
    rows = database.execute(f'SELECT * FROM "{name}"').fetchall()
    columns = [
        pa.array([_value(row[at], field.type) for row in rows], field.type)
        for at, field in enumerate(schema)
    ]
    return pa.table(columns, schema=schema)


def _type(name, declared):
    if name in _UNSIGNED:
        return pa.uint64()
    if name == "isDiscrete":
        return pa.bool_()
    return pa.int64() if "INT" in declared else pa.float64() if declared == "REAL" else pa.string()


def _value(value, kind):
    if value is None:
        return None
    if kind == pa.bool_():
        return bool(value)
    return value % (1 << 64) if kind == pa.uint64() else value
