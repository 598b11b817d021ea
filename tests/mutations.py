"""Damages real exports at random and looks what summarize and doctor make of them.

    python tests/mutations.py --count 20000 --seed 1

Each mutation is one or a few changes of a small export: of its bytes, or of its rows and tables.
The damaged file is read, summarized, rendered and looked over in a worker process with a limit on
memory and time. Outcomes that are wanted:

refused     an error of the package, with a message
told        a result that holds together, with findings that the sound file does not have
same        the result of the sound file
changed     a result that holds together, with other figures and no new finding: damage inside a
            value that is still possible. The format has no checksums, so it cannot be seen.

and outcomes that are defects, printed with what repeats them (``--only NUMBER``): ``raised`` (an
exception that is none of the package's), ``inconsistent`` (figures that contradict each other, or
rows that are in no step and not counted outside either), ``hung``, ``died`` (of a signal or of
memory). Exits with 1 if there is a defect.
"""

from __future__ import annotations

import argparse
import json
import math
import random
import resource
import select
import shutil
import sqlite3
import subprocess
import sys
import tempfile
import time
import traceback
from collections import Counter
from contextlib import closing, suppress
from pathlib import Path

WANTED = ("refused", "told", "same", "changed")
MEMORY_BYTES = 4 << 30
SECONDS = 30.0
_PAGE = 4096
_MOST = (1 << 63) - 1
_ODD_VALUES = (
    None, "text", "12", "", b"\xff\x00", 0, 1, -1, 1 << 31, 1 << 32, 1 << 53, 1 << 62, _MOST,
    -_MOST - 1, 9e999, 1.5, 1e300, "\x1b[31m<script>", "execute_context_9(9)_generation_9(9)",
)  # fmt: skip
EXPORTS = (
    "small",
    "2024.2/llama-8b_graphlevel",
    "2025.3/torch_graph_probe",
    "2023.4/qwen35-27b_b1",
)
# The larger an export the slower it is: most mutations go to the small ones.
_WEIGHTS = (6, 3, 3, 1)


# Mutations


def mutate(path, chance):
    """Damage the file; gives what was done, in words."""
    if chance.random() < 0.5:
        data = bytearray(path.read_bytes())
        done = [chance.choice(BYTES)(data, chance) for _ in range(chance.choice((1, 1, 1, 2, 5)))]
        path.write_bytes(data)
        return "; ".join(done)
    with closing(sqlite3.connect(path, isolation_level=None)) as database:
        database.execute("PRAGMA synchronous = OFF")
        _allow_nulls(database)
    with closing(sqlite3.connect(path, isolation_level=None)) as database:
        database.execute("PRAGMA synchronous = OFF")
        done = []
        for _ in range(chance.choice((1, 1, 1, 2, 4))):
            with suppress(sqlite3.Error):  # such as a second key of one value
                done.append(chance.choice(ROWS)(database, chance))
    return "; ".join(done) or "nothing"


def _allow_nulls(database):
    database.execute("PRAGMA writable_schema = ON")
    database.execute("UPDATE sqlite_master SET sql = replace(sql, ' NOT NULL', '')")


def _flip(data, chance):
    at = chance.randrange(len(data))
    data[at] ^= 1 << chance.randrange(8)
    return f"bit flipped in byte {at}"


def _flip_in_header(data, chance):
    at = chance.randrange(100)
    data[at] = chance.randrange(256)
    return f"byte {at} of the header set"


def _zeros(data, chance):
    at, size = chance.randrange(len(data)), chance.choice((1, 8, 100, _PAGE, 8 * _PAGE))
    size = min(size, len(data) - at)
    data[at : at + size] = bytes(size)
    return f"{size} zeros at {at}"


def _noise(data, chance):
    at, size = chance.randrange(len(data)), chance.choice((2, 16, 200))
    size = min(size, len(data) - at)
    data[at : at + size] = chance.randbytes(size)
    return f"{size} random bytes at {at}"


def _cut(data, chance):
    size = chance.choice((chance.randrange(len(data)), len(data) // _PAGE // 2 * _PAGE))
    del data[size:]
    data.extend(b"" if data else b"S")
    return f"cut to {size} bytes"


def _page(data, chance):
    return chance.randrange(len(data) // _PAGE or 1) * _PAGE


def _swap_pages(data, chance):
    one, two = _page(data, chance), _page(data, chance)
    first, second = bytes(data[one : one + _PAGE]), bytes(data[two : two + _PAGE])
    data[one : one + _PAGE], data[two : two + _PAGE] = second, first
    return f"pages at {one} and {two} swapped"


def _repeat_page(data, chance):
    one, two = _page(data, chance), _page(data, chance)
    data[two : two + _PAGE] = data[one : one + _PAGE]
    return f"page at {one} written over that at {two}"


def _table(database, chance):
    names = [name for (name,) in database.execute(
        "SELECT name FROM sqlite_master WHERE type = 'table' ORDER BY name")]  # fmt: skip
    return chance.choice(names)


def _column(database, table, chance):
    return chance.choice([row[1] for row in database.execute(f'PRAGMA table_info("{table}")')])


def _some(chance):
    """A condition on rows: one, a few, half, all."""
    return chance.choice(
        (f"rowid = {chance.randrange(1, 60)}", f"rowid % 50 = {chance.randrange(50)}",
         "rowid % 2 = 0", "1")
    )  # fmt: skip


def _set(database, chance):
    table, where = _table(database, chance), _some(chance)
    column, value = _column(database, table, chance), chance.choice(_ODD_VALUES)
    database.execute(f'UPDATE "{table}" SET "{column}" = ? WHERE {where}', (value,))
    return f"{table}.{column} = {value!r} where {where}"


def _negate(database, chance):
    table, where = _table(database, chance), _some(chance)
    column = _column(database, table, chance)
    database.execute(f'UPDATE "{table}" SET "{column}" = -"{column}" WHERE {where}')
    return f"{table}.{column} negated where {where}"


def _swap_columns(database, chance):
    table, where = _table(database, chance), _some(chance)
    one, two = _column(database, table, chance), _column(database, table, chance)
    database.execute(f'UPDATE "{table}" SET "{one}" = "{two}", "{two}" = "{one}" WHERE {where}')
    return f"{table}.{one} and {two} swapped where {where}"


def _swap_ids(database, chance):
    """Values of a column go to other rows."""
    table = _table(database, chance)
    column = _column(database, table, chance)
    values = database.execute(f'SELECT "{column}", rowid FROM "{table}" LIMIT 200').fetchall()
    rows = [row for _, row in values]
    chance.shuffle(rows)
    database.execute("BEGIN")
    database.executemany(
        f'UPDATE "{table}" SET "{column}" = ? WHERE rowid = ?',
        [(value, row) for (value, _), row in zip(values, rows, strict=True)],
    )
    database.execute("COMMIT")
    return f"{table}.{column} shuffled"


def _delete_rows(database, chance):
    table, where = _table(database, chance), _some(chance)
    database.execute(f'DELETE FROM "{table}" WHERE {where}')
    return f"{table} without rows where {where}"


def _repeat_rows(database, chance):
    table, where = _table(database, chance), _some(chance)
    database.execute(f'INSERT INTO "{table}" SELECT * FROM "{table}" WHERE {where}')
    return f"{table} with rows twice where {where}"


def _drop_table(database, chance):
    table = _table(database, chance)
    database.execute(f'DROP TABLE "{table}"')
    return f"no {table}"


def _drop_column(database, chance):
    table = _table(database, chance)
    column = _column(database, table, chance)
    database.execute(f'ALTER TABLE "{table}" DROP COLUMN "{column}"')
    return f"no {table}.{column}"


def _rename_column(database, chance):
    table = _table(database, chance)
    column = _column(database, table, chance)
    database.execute(f'ALTER TABLE "{table}" RENAME COLUMN "{column}" TO "other "" name"')
    return f"{table}.{column} renamed"


def _make_view(database, chance):
    table, where = _table(database, chance), _some(chance)
    database.execute(f'ALTER TABLE "{table}" RENAME TO "behind {table}"')
    database.execute(f'CREATE VIEW "{table}" AS SELECT * FROM "behind {table}" WHERE {where}')
    return f"{table} is a view where {where}"


BYTES = (_flip, _flip, _flip_in_header, _zeros, _noise, _cut, _swap_pages, _repeat_page)
ROWS = (
    _set, _set, _set, _negate, _swap_columns, _swap_ids, _delete_rows, _repeat_rows, _drop_table,
    _drop_column, _rename_column, _make_view,
)  # fmt: skip


# What is made of the damaged file, in a worker


def figures(path):
    """Figures and findings of a file, after checking that they hold together."""
    import kernelscope
    from kernelscope.rendering import render

    summary = kernelscope.summarize(path)
    for format_ in ("text", "json"):
        shown = render(summary, format_)
        strange = [c for c in shown if c != "\n" and not c.isprintable()]
        _holds(not strange, f"{format_} shows {strange[:3]}")
    _holds_together(path, summary)
    phases = {
        f"{phase.rank} {phase.phase}": [phase.steps, phase.kernels_per_step.median, phase.kernel_ms]
        for phase in summary.phases
    }
    return phases, [one.message for one in summary.findings]


class Inconsistent(Exception):
    """Figures that contradict each other."""


def _holds(is_so, otherwise):
    if not is_so:
        raise Inconsistent(otherwise)


def _is_close(one, two):
    return math.isclose(one, two, rel_tol=1e-6, abs_tol=1e-6)


def _holds_together(path, summary):
    rows = summary.tables["category"].rows(named=True)
    for phase in summary.phases:
        mine = [row for row in rows if (row["rank"], row["phase"]) == (phase.rank, phase.phase)]
        _holds(_is_close(sum(row["kernel_ms"] for row in mine), phase.kernel_ms), "kernel_ms")
        shares = [row["share"] for row in mine if row["share"] is not None]
        _holds(all(0 <= share <= 1 for share in shares), "a share")
        _holds(not phase.kernel_ms or _is_close(sum(shares), 1), "shares")
        _holds(_is_close(phase.busy_ms + phase.idle_ms, phase.span_ms), "busy and idle")
        _holds(_is_close(phase.kernel_ms - phase.busy_ms, phase.overlap_ms), "overlap")
        parts = phase.idle_inside_replay_ms, phase.idle_for_cpu_ms, phase.idle_between_launches_ms
        _holds(_is_close(sum(parts), phase.idle_ms), "parts of idle")
        times = (*parts, phase.busy_ms, phase.kernel_ms, phase.span_ms)
        _holds(all(math.isfinite(time) and time >= 0 for time in times), "a time below 0")
    _holds_every_kernel(path, summary)


def _holds_every_kernel(path, summary):
    """Each row is in one step, outside every step, or left out and counted."""
    steps = summary.tables["step"]
    placed = int(steps["kernels"].sum()) + sum(left.kernels for left in summary.outside)
    ranks = sum(rank.kernels for rank in summary.ranks)
    _holds(placed == ranks, f"{placed} kernels in steps and outside, {ranks} on ranks")
    told = [one.message for one in summary.findings if "impossible times" in one.message]
    left_out = int(told[0].split()[0].replace(",", "")) if told else 0
    with closing(sqlite3.connect(f"{path.as_uri()}?mode=ro", uri=True)) as database:
        kernels = _count(database, "CUPTI_ACTIVITY_KIND_KERNEL")
        replays = _count(database, "CUPTI_ACTIVITY_KIND_GRAPH_TRACE")
    if replays == 0:
        _holds(placed + left_out == kernels, f"{placed} + {left_out} of {kernels} kernels")


def _count(database, table):
    try:
        # Row by row, as the rows are read: an index may be damaged where the table is not.
        return len(database.execute(f"SELECT rowid FROM {table} NOT INDEXED").fetchall())
    except sqlite3.OperationalError:
        return 0


def outcome(path, sound):
    """The outcome for a damaged file, and what was said."""
    import kernelscope
    from kernelscope.errors import KernelscopeError

    found = {one.message for one in kernelscope.diagnose(path).findings if one.level != "ok"}
    found -= {*sound["findings"]}
    try:
        phases, findings = figures(path)
    except KernelscopeError as error:
        if not found:
            raise Inconsistent(f"doctor finds nothing where summarize says: {error}") from error
        return "refused", str(error)
    except Inconsistent:
        # Rows that SQLite finds on one way and not on another: only a close look sees that.
        if any("damaged" in message for message in found):
            return "told", min(found)
        raise
    if phases == sound["phases"]:
        return "same", ""
    new = found | {*findings} - {*sound["findings"]}
    return ("told", min(new)) if new else ("changed", json.dumps(phases))


def work():
    """Answer one line of JSON for each on standard input."""
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
    import kernelscope

    sounds = {}
    for line in sys.stdin:
        path, number, name, seed = json.loads(line)
        folder = Path(path)
        if name not in sounds:
            phases, findings = figures(folder / "sound" / name)
            found = [one.message for one in kernelscope.diagnose(folder / "sound" / name).findings]
            sounds[name] = {"phases": phases, "findings": [*findings, *found]}
        damaged = folder / f"{number}.sqlite"
        shutil.copyfile(folder / "sound" / name, damaged)
        done = mutate(damaged, random.Random(f"{seed} {number}"))  # noqa: S311
        try:
            kind, said = outcome(damaged, sounds[name])
        except Inconsistent as error:
            kind, said = "inconsistent", str(error)
        except Exception:  # noqa: BLE001
            kind, said = "raised", traceback.format_exc()
        damaged.unlink()
        print(json.dumps((kind, done, said)), flush=True)  # noqa: T201


# The workers, from outside


class Worker:
    """A process that answers, or is replaced."""

    def __init__(self):
        self._process = None

    def ask(self, task):
        """Outcome, what was done, what was said."""
        if self._process is None:
            self._process = subprocess.Popen(
                [sys.executable, __file__, "--work"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                text=True,
            )
        print(json.dumps(task), file=self._process.stdin, flush=True)
        ready, _, _ = select.select([self._process.stdout], [], [], SECONDS)
        line = self._process.stdout.readline() if ready else ""
        if line:
            return json.loads(line)
        self.close()
        return ("died", "", "the worker ended") if ready else ("hung", "", f"over {SECONDS} s")

    def close(self):
        """End the process."""
        if self._process is not None:
            self._process.kill()
            self._process.communicate()
            self._process = None


def _sound_files(folder):
    from conftest import small_run
    from exports import exported

    (folder / "sound").mkdir()
    for name in EXPORTS:
        path = folder / "sound" / name.replace("/", "_")
        if name == "small":
            small_run().write(path)
        else:
            shutil.copyfile(exported(name), path)


def run(numbers, seed, exports=EXPORTS):
    """Counts by outcome, and the defects: (number, outcome, mutation, what was said)."""
    counts, defects, worker = Counter(), [], Worker()
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        _sound_files(folder)
        weights = [_WEIGHTS[EXPORTS.index(name)] for name in exports]
        for number in numbers:
            chance = random.Random(f"{seed} {number} export")  # noqa: S311
            (name,) = chance.choices(exports, weights)
            kind, done, said = worker.ask((made, number, name.replace("/", "_"), seed))
            counts[kind] += 1
            if kind not in WANTED:
                defects.append((number, kind, f"{name}: {done}", said))
    worker.close()
    return counts, defects


def main():
    """See the module's text."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--count", type=int, default=300)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--from", type=int, default=0, dest="first", help="the first number")
    parser.add_argument("--only", type=int, help="this mutation alone")
    parser.add_argument("--work", action="store_true", help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.work:
        work()
        return 0
    numbers = range(asked.first, asked.first + asked.count)
    began = time.monotonic()
    counts, defects = run(numbers if asked.only is None else [asked.only], asked.seed)
    for number, kind, done, said in defects:
        print(f"{number} {kind}: {done}\n    {said.strip()}")  # noqa: T201
    told = ", ".join(f"{count:,} {kind}" for kind, count in counts.most_common())
    print(f"{counts.total():,} mutations in {time.monotonic() - began:.0f} s: {told}")  # noqa: T201
    return 1 if defects else 0


if __name__ == "__main__":
    sys.exit(main())
