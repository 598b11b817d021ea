"""The builder itself: what it writes is what nsys would."""

import sqlite3
from contextlib import closing

import pytest

from export_builder import KERNEL, RUNTIME, VERSIONS, ExportBuilder, global_pid


def rows(path, sql):
    with closing(sqlite3.connect(path)) as database:
        return database.execute(sql).fetchall()


@pytest.mark.parametrize("version", VERSIONS)
def test_a_lazy_export_has_only_tables_with_rows(version, write):
    export = ExportBuilder(version)
    export.kernel("nvjet_a", 10, 5, export.call("cudaLaunchKernel_v7000", 1))
    tables = {name for (name,) in rows(write(export), "SELECT name FROM sqlite_master")}
    assert {KERNEL, RUNTIME, "StringIds"} <= tables
    assert "NVTX_EVENTS" not in tables


def test_global_ids_are_built_as_nsys_builds_them():
    # NSYS_SCHEMA section 4: hardware << 56 | vm << 48 | pid << 24, stored signed.
    assert global_pid(4242) == 281546145660928
    assert global_pid(0, hardware=0xFE) == -144115188075855872 + (1 << 48)


def test_the_first_string_has_id_zero_which_is_a_real_id(write):
    export = ExportBuilder()
    export.kernel("nvjet_a", 10, 5)
    assert rows(write(export), "SELECT id, value FROM StringIds") == [(0, "nvjet_a")]
    assert rows(write(export), f"SELECT demangledName FROM {KERNEL}") == [(0,)]


def test_shift_moves_every_moment_alike(write):
    export = ExportBuilder()
    export.kernel("nvjet_a", 10, 5)
    ((start, end),) = rows(write(export, shift_ns=7), f'SELECT start, "end" FROM {KERNEL}')
    assert (start, end) == (10_007, 15_007)
