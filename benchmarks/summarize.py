"""Time and memory of ``kernelscope summarize`` beside the bare SQL on the same file.

usage: python benchmarks/summarize.py [TRACE] [--times 27 --times 134] [--runs 5]

The trace is repeated along the time axis, so steps, graph launches and names stay what they were.
The bare SQL reads one table and counts per name: whatever reads the kernels costs at least that.
Both run as processes of their own, in turn, on a file that is in the page cache.
"""

from __future__ import annotations

import argparse
import os
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import time
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

FIXTURE = Path(__file__).parent.parent / "fixtures" / "exports" / "2023.4" / "qwen35-27b_b1.sqlite"
FULL_TIMES = (27, 134)
"""For the full capture (33,309 kernels): 0.9 and 4.5 million kernels."""

_KERNEL = "CUPTI_ACTIVITY_KIND_KERNEL"
_TILED = (
    _KERNEL,
    "CUPTI_ACTIVITY_KIND_MEMCPY",
    "CUPTI_ACTIVITY_KIND_MEMSET",
    "CUPTI_ACTIVITY_KIND_RUNTIME",
    "CUPTI_ACTIVITY_KIND_SYNCHRONIZATION",
    "NVTX_EVENTS",
)
_PAUSE_NS = 1_000_000
_GROUP_BY = f'SELECT shortName, count(*), sum("end" - start) FROM {_KERNEL} GROUP BY 1'
_BARE_SQL = f"import sqlite3, sys; sqlite3.connect(sys.argv[1]).execute('{_GROUP_BY}').fetchall()"


@dataclass(frozen=True)
class Run:
    """One process: how long it took and how much memory it held at most."""

    seconds: float
    megabytes: float


def main() -> None:
    arguments = parse_arguments()
    print("| kernels | bare SQL, s | summarize, s | ratio | peak memory, MB |")
    print("|---:|---:|---:|---:|---:|")
    with tempfile.TemporaryDirectory(dir=arguments.scratch) as folder:
        for times in arguments.times or FULL_TIMES:
            trace = Path(folder) / f"tiled{times}.sqlite"
            tile(arguments.trace, trace, times)
            print(row(trace, arguments.runs), flush=True)
            trace.unlink()


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("trace", type=Path, nargs="?", default=FIXTURE, help="default: a fixture")
    parser.add_argument(
        "--times", type=int, action="append", help="how often to repeat it (default: 27 and 134)"
    )
    parser.add_argument("--runs", type=int, default=5, help="of each, in turn (default: 5)")
    parser.add_argument("--scratch", type=Path, help="where the tiled traces are put meanwhile")
    return parser.parse_args()


def tile(source: Path, target: Path, times: int) -> None:
    """Write a trace that is ``source`` ``times`` times over, each copy after the one before."""
    with closing(sqlite3.connect(target, isolation_level=None)) as db:
        # A scratch file: neither safe from a crash nor slowed down by being so.
        db.executescript("PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF;")
        with closing(sqlite3.connect(f"{source.absolute().as_uri()}?mode=ro", uri=True)) as small:
            small.backup(db)
        tables = {table: columns(db, table) for table in _TILED if columns(db, table)}
        length = duration(db)
        shift = {"start": length, "end": length, "correlationId": ids(db, tables)}
        db.execute("BEGIN")
        for table, names in tables.items():
            repeat(db, table, names, shift, times)
        if columns(db, "ANALYSIS_DETAILS"):
            # Otherwise the capture would seem to end within its last step.
            longer = f"duration + {length * (times - 1)}"
            db.execute(f"UPDATE ANALYSIS_DETAILS SET duration = {longer}")
        db.execute("COMMIT")


def repeat(
    db: sqlite3.Connection, table: str, names: list[str], shift: dict[str, int], times: int
) -> None:
    """Append the rows of a table ``times`` - 1 times, shifted a little further each time."""
    ((last,),) = db.execute(f"SELECT max(rowid) FROM {table}")
    shifted = (f'"{n}" + :copy * {shift[n]}' if n in shift else f'"{n}"' for n in names)
    # Rows before 0 are about the capture itself, such as NVTX domains: once is enough.
    insert = (
        f"INSERT INTO {table} SELECT {', '.join(shifted)} FROM {table}"
        " WHERE rowid <= :last AND start >= 0 ORDER BY rowid"
    )
    for copy in range(1, times):
        db.execute(insert, {"copy": copy, "last": last})


def columns(db: sqlite3.Connection, table: str) -> list[str]:
    """Names of the table's columns; none if there is no such table."""
    return [name for (name,) in db.execute("SELECT name FROM pragma_table_info(?)", (table,))]


def duration(db: sqlite3.Connection) -> int:
    """From the first call or kernel to the last, and a pause, so that copies do not overlap."""
    spans = f"""
        SELECT min(start) AS first, max("end") AS last FROM {_KERNEL} UNION ALL
        SELECT min(start), max("end") FROM CUPTI_ACTIVITY_KIND_RUNTIME UNION ALL
        SELECT min(start), max("end") FROM NVTX_EVENTS WHERE start >= 0"""
    ((length,),) = db.execute(f"SELECT max(last) - min(first) FROM ({spans})")
    return int(length) + _PAUSE_NS


def ids(db: sqlite3.Connection, tables: dict[str, list[str]]) -> int:
    """How far correlation ids are apart from one copy to the next."""
    with_ids = [table for table, names in tables.items() if "correlationId" in names]
    highest = (
        db.execute(f"SELECT max(correlationId) FROM {table}").fetchone() for table in with_ids
    )
    return 1 + max(value or 0 for (value,) in highest)


def row(trace: Path, runs: int) -> str:
    """One line of the table: medians of ``runs`` runs of each, in turn."""
    bare_sql = [sys.executable, "-c", _BARE_SQL, str(trace)]
    summarize = [sys.executable, "-m", "kernelscope", "summarize", str(trace)]
    for command in (bare_sql, summarize):
        measure(command)  # the file into the page cache, modules into their compiled form
    pairs = [(measure(bare_sql), measure(summarize)) for _ in range(runs)]
    sql_s = statistics.median(sql.seconds for sql, _ in pairs)
    summarize_s = statistics.median(ours.seconds for _, ours in pairs)
    megabytes = max(ours.megabytes for _, ours in pairs)
    with closing(sqlite3.connect(trace)) as db:
        ((kernels,),) = db.execute(f"SELECT count(*) FROM {_KERNEL}")
    return (
        f"| {kernels:,} | {sql_s:.2f} | {summarize_s:.2f} | {summarize_s / sql_s:.2f} "
        f"| {megabytes:.0f} |"
    )


def measure(command: list[str]) -> Run:
    """Run a process to its end; its memory is what the system says of it alone."""
    begin = time.perf_counter()
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    seconds = time.perf_counter() - begin
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise SystemExit(f"exit code {process.returncode}: {' '.join(command)}")
    # Linux counts kilobytes, macOS bytes.
    unit = 1 if sys.platform == "darwin" else 1024
    return Run(seconds, usage.ru_maxrss * unit / 1e6)


if __name__ == "__main__":
    main()
