"""One reader for every exporter version: the file is asked what it has."""

import sqlite3
from contextlib import closing

import polars as pl
import pytest

import kernelscope
from export_builder import DECODE, KERNEL, PREFILL, RUNTIME, VERSIONS, ExportBuilder, change
from kernelscope import frames
from kernelscope.errors import MissingTable
from kernelscope.nsys import schema

NO_META_DATA = "2020.4"


def small_run(version):
    export = ExportBuilder(version).gpu(0, "NVIDIA H200").window(2_000)
    export.step(PREFILL, [("nvjet_a", 30)])
    for _ in range(3):
        export.step(DECODE, [("rms_norm_kernel", 1)], graph=[("nvjet_a", 5)])
    export.copy(700, 3, export.call("cudaMemcpyAsync_v3020", 690))
    return export


def numbers(summary):
    plain = summary.to_dict()
    return plain["phases"], plain["outside_steps"], plain["excluded_steps"]


@pytest.fixture(scope="module")
def expected(tmp_path_factory):
    path = small_run("2024.2").write(tmp_path_factory.mktemp("run") / "trace.sqlite")
    return numbers(kernelscope.summarize(path))


@pytest.mark.parametrize("version", VERSIONS)
def test_every_version_gives_the_same_numbers(version, summarize, expected):
    assert numbers(summarize(small_run(version))) == expected


@pytest.mark.parametrize("version", VERSIONS)
def test_tables_without_rows_change_nothing(version, summarize, expected):
    assert numbers(summarize(small_run(version), lazy=False)) == expected


@pytest.mark.parametrize("version", VERSIONS)
def test_views_in_place_of_tables_are_read_alike(version, summarize, expected):
    assert numbers(summarize(small_run(version), views=True)) == expected


@pytest.mark.parametrize("version", VERSIONS)
def test_no_supported_version_is_warned_about(version, summarize):
    warnings = summarize(small_run(version)).warnings
    assert [w for w in warnings if "schema" in w.casefold()] == (
        ["The export does not state its schema version; read as it is."]
        if version == NO_META_DATA
        else []
    )


def test_the_order_of_columns_does_not_matter(write, expected):
    path = write(small_run("2025.5"))
    with closing(sqlite3.connect(path)) as database:
        info = database.execute(f"PRAGMA table_info({KERNEL})").fetchall()
    backwards = ", ".join(f'"{column[1]}"' for column in reversed(info))
    change(
        path,
        f"CREATE TABLE other AS SELECT {backwards} FROM {KERNEL}",
        f"DROP TABLE {KERNEL}",
        f"ALTER TABLE other RENAME TO {KERNEL}",
    )
    assert numbers(kernelscope.summarize(path)) == expected


def test_numbers_stored_as_text_are_read_as_numbers(write, expected):
    path = write(small_run("2024.2"))
    change(
        path,
        f'CREATE TABLE other AS SELECT CAST(start AS TEXT) start, CAST("end" AS TEXT) "end",'
        " CAST(globalPid AS TEXT) globalPid, deviceId, contextId, streamId,"
        f" CAST(correlationId AS TEXT) correlationId, demangledName, graphNodeId FROM {KERNEL}",
        f"DROP TABLE {KERNEL}",
        f"ALTER TABLE other RENAME TO {KERNEL}",
    )
    assert numbers(kernelscope.summarize(path)) == expected


def test_table_names_are_found_whatever_their_case(write, expected):
    path = write(small_run("2024.2"))
    change(
        path,
        f"ALTER TABLE {KERNEL} RENAME TO other",
        f"ALTER TABLE other RENAME TO {KERNEL.lower()}",
        f"ALTER TABLE {RUNTIME} RENAME TO other",
        f"ALTER TABLE other RENAME TO {RUNTIME.lower()}",
    )
    assert numbers(kernelscope.summarize(path)) == expected


def test_unknown_tables_and_columns_are_ignored(write, expected):
    path = write(small_run("2026.2"))
    change(
        path,
        "CREATE TABLE FUTURE_EVENTS (what TEXT)",
        f"ALTER TABLE {KERNEL} ADD COLUMN futureColumn TEXT NOT NULL DEFAULT '[]'",
    )
    assert numbers(kernelscope.summarize(path)) == expected


@pytest.mark.parametrize("column", ["graphNodeId", "gridX", "streamId", "contextId"])
def test_a_missing_optional_column_reads_as_null(column, write):
    path = change(write(small_run("2023.4")), f"ALTER TABLE {KERNEL} DROP COLUMN {column}")
    contract = {"graphNodeId": "graph_node", "gridX": "grid_x", "streamId": "stream"}
    kernels = kernelscope.read_export(path).kernels
    assert kernels[contract.get(column, "context")].null_count() == kernels.height == 7


def test_names_come_from_the_short_name_where_there_is_no_demangled_one(write):
    path = change(write(small_run("2023.4")), f"ALTER TABLE {KERNEL} DROP COLUMN demangledName")
    assert set(kernelscope.read_export(path).kernels["name"]) == {"nvjet_a", "rms_norm_kernel"}


@pytest.mark.parametrize("column", ["start", "end"])
def test_a_table_without_times_is_refused_by_name(column, write):
    path = change(write(small_run("2023.4")), f'ALTER TABLE {KERNEL} DROP COLUMN "{column}"')
    with pytest.raises(MissingTable, match=rf"{KERNEL} has no column {column}\b"):
        kernelscope.summarize(path)


def test_a_graph_node_of_zero_means_no_graph(write):
    path = write(small_run("2023.4"))
    change(path, f"UPDATE {KERNEL} SET graphNodeId = 0")
    assert kernelscope.read_export(path).kernels["graph_node"].is_null().all()


def test_a_newer_major_schema_is_read_and_warned_about(write):
    path = write(small_run("2026.2"))
    change(
        path,
        "UPDATE META_DATA_EXPORT SET value = '4.0.0' WHERE name = 'EXPORT_SCHEMA_VERSION'",
    )
    summary = kernelscope.summarize(path)
    assert summary.phase("decode").steps == 3
    assert any("4.0.0 is newer" in warning for warning in summary.warnings)


def test_identifiers_of_the_file_are_quoted():
    assert schema.quote('a"b') == '"a""b"'


def test_every_contract_table_has_a_source_for_each_of_its_columns():
    for table, (_, fields) in schema.FIELDS.items():
        contract = getattr(frames, table.upper()) if table != "api_calls" else None
        wanted = contract or frames.API_CALLS
        assert set(fields) == set(wanted), table
        assert all(isinstance(dtype, pl.DataType) for dtype in wanted.values())
