"""The SQLite file: opened read-only, nothing left beside it, damage explained."""

import sqlite3
import threading
from contextlib import closing

import pytest

import kernelscope
from export_builder import KERNEL
from kernelscope.errors import ExportError, NotAnExport
from kernelscope.nsys import database
from kernelscope.nsys.database import explain, open_database


@pytest.mark.parametrize(
    "name",
    ["a b.sqlite", "a#b.sqlite", "a?b.sqlite", "a%41.sqlite", "é日本.sqlite", "a&mode=rwc.sqlite"],
)
def test_paths_with_special_characters_open_that_very_file(name, tmp_path, run_export):
    folder = tmp_path / "#folder ?%20 ü"
    folder.mkdir()
    path = run_export.write(folder / name)
    summary = kernelscope.summarize(path)
    assert summary.phase("decode").steps == 3
    assert [entry.name for entry in folder.iterdir()] == [name]


def test_a_relative_path_is_read(tmp_path, run_export, monkeypatch):
    run_export.write(tmp_path / "trace.sqlite")
    monkeypatch.chdir(tmp_path)
    assert kernelscope.summarize("trace.sqlite").phase("decode").steps == 3


def test_reading_leaves_the_file_as_it_was(write, run_export):
    path = write(run_export)
    before = path.read_bytes()
    kernelscope.summarize(path)
    assert path.read_bytes() == before
    assert list(path.parent.iterdir()) == [path]


@pytest.mark.parametrize("sql", ["CREATE TABLE x (a)", f"DELETE FROM {KERNEL}"])
def test_the_connection_cannot_write(sql, write, run_export):
    path = write(run_export)
    with pytest.raises(ExportError, match="readonly"):
        open_database(path).rows(sql)


def test_a_file_in_wal_mode_is_read_without_files_beside_it(write, run_export):
    path = write(run_export)
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA journal_mode = WAL")
    assert list(path.parent.iterdir()) == [path]
    assert kernelscope.summarize(path).phase("decode").steps == 3
    assert list(path.parent.iterdir()) == [path]


def test_rows_that_wait_in_a_log_are_not_missed(write, run_export):
    path = write(run_export)
    with closing(sqlite3.connect(path, isolation_level=None)) as writer:
        writer.execute("PRAGMA journal_mode = WAL")
        writer.execute("PRAGMA wal_autocheckpoint = 0")
        writer.execute(f"DELETE FROM {KERNEL} WHERE rowid = 1")
        assert kernelscope.read_export(path).kernels.height == 13


def test_a_locked_file_is_explained(write, run_export, monkeypatch):
    monkeypatch.setattr(database, "_BUSY_SECONDS", 0.05)
    path = write(run_export)
    with closing(sqlite3.connect(path, isolation_level=None)) as writer:
        writer.execute("BEGIN EXCLUSIVE")
        with pytest.raises(ExportError, match=r"locked by another program.*copy"):
            kernelscope.read_export(path)


def test_damage_that_shows_only_in_the_rows_is_explained(write, run_export):
    path = write(run_export)
    with closing(sqlite3.connect(path)) as connection:
        ((page,),) = connection.execute(
            "SELECT rootpage FROM sqlite_master WHERE name = ?", [KERNEL]
        ).fetchall()
    content = bytearray(path.read_bytes())
    content[(page - 1) * 4096 : page * 4096] = b"\xff" * 4096
    path.write_bytes(content)
    with pytest.raises(NotAnExport, match=r"damaged.*Copy it again"):
        kernelscope.summarize(path)


@pytest.mark.parametrize("reason", ["database disk image is malformed", "file is not a database"])
def test_what_sqlite_says_of_damage_is_quoted(reason, tmp_path):
    error = explain(tmp_path / "x.sqlite", reason)
    assert isinstance(error, NotAnExport)
    assert reason in error.message


def test_a_trigger_or_view_of_the_file_cannot_run_code(write, run_export):
    path = write(run_export)
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("ALTER TABLE NVTX_EVENTS RENAME TO other")
        connection.execute(
            "CREATE VIEW NVTX_EVENTS AS SELECT *, load_extension('x') AS y FROM other"
        )
    with pytest.raises(ExportError):
        open_database(path).rows("SELECT * FROM NVTX_EVENTS")


def test_several_threads_read_at_once(write, run_export):
    database = open_database(write(run_export))
    heights = []

    def count():
        heights.append(database.frame(f"SELECT start FROM {KERNEL}").height)

    threads = [threading.Thread(target=count) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert heights == [14] * 8
