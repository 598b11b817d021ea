"""Writes a tiny, valid nsys export of a chosen version, so that a test shows its whole trace.

Every time given to the builder is in microseconds; the file holds nanoseconds::

    export = ExportBuilder("2024.2")
    export.step("execute_context_0(0)_generation_1(1)", [("nvjet_a", 5), ("rms_norm", 2)])
    path = export.write(tmp_path / "trace.sqlite")

A step begins 100 µs after the one before it. Its calls are made one per µs from 1 µs after its
label; its GPU work begins ``lag`` (10) µs after its label and runs back to back.
"""

from __future__ import annotations

import json
import random
import re
import sqlite3
from collections import defaultdict
from contextlib import closing
from pathlib import Path

SCHEMAS = Path(__file__).parent.parent / "fixtures" / "schemas"
VERSIONS = tuple(sorted(path.stem for path in SCHEMAS.glob("*.sql")))

CUPTI = "CUPTI_ACTIVITY_KIND_"
KERNEL, RUNTIME, GRAPH_TRACE = CUPTI + "KERNEL", CUPTI + "RUNTIME", CUPTI + "GRAPH_TRACE"
PID, TID = 4242, 4300
LAUNCH, GRAPH_LAUNCH, COPY = "cudaLaunchKernel_v7000", "cudaGraphLaunch_v10000", "cudaMemcpyAsync"
PUSH_POP, GRAPH_EXEC = 59, 2
PREFILL, DECODE = "execute_context_1(512)_generation_0(0)", "execute_context_0(0)_generation_1(1)"
MIXED, EMPTY = "execute_context_1(512)_generation_1(1)", "execute_context_0(0)_generation_0(0)"
_MOMENTS = ("start", "end")


def global_pid(pid, hardware=0):
    """nsys's key of a process; negative from hardware id 0x80 on, as SQLite stores it."""
    key = hardware << 56 | 1 << 48 | pid << 24
    return key - (1 << 64) if key >= 1 << 63 else key


class ExportBuilder:
    def __init__(self, version="2023.4", hardware=0):
        self.hardware = hardware
        sql = (SCHEMAS / f"{version}.sql").read_text()
        self.tables = {
            name: (create, re.findall(r'"(\w+)" (\w+)( NOT NULL)?', create))
            for create, name in re.findall(r"(CREATE TABLE (\w+) .*?\);)", sql, re.DOTALL)
        }
        self.rows = defaultdict(list)
        self.string_ids = {}
        self._correlation = 100
        self._next_step = {}
        meta = "META_DATA_EXPORT" if "META_DATA_EXPORT" in self.tables else "EXPORT_META_DATA"
        product, schema = re.match(r"-- nsys (\S+), export schema (.*?):", sql).groups()
        self.row(meta, name="EXPORT_PRODUCT_VERSION", value=product)
        self.row(meta, name="EXPORT_SCHEMA_VERSION", value=schema)

    def row(self, table, **columns):
        """A row as the file has it, ns; tables and columns that the version lacks are left out."""
        if table in self.tables:
            self.rows[table].append(columns)
        return self

    def string(self, text):
        """The id of a text; the first one is 0, which is a real id."""
        return self.string_ids.setdefault(text, len(self.string_ids))

    def call(self, name, start, duration=1, *, correlation=None, pid=PID, tid=TID):
        """A CUDA API call; gives its correlation id."""
        if correlation is None:
            self._correlation += 1
            correlation = self._correlation
        self.row(
            RUNTIME,
            **_times(start, duration),
            globalTid=global_pid(pid, self.hardware) | tid,
            correlationId=correlation,
            nameId=self.string(name),
        )
        return correlation

    def _on_gpu(self, table, start, duration, correlation, pid, device, stream, **columns):
        where = {"globalPid": global_pid(pid, self.hardware), "deviceId": device}
        where |= {"contextId": 1, "streamId": stream, "correlationId": correlation}
        self.row(table, **_times(start, duration), **where, **columns)

    def kernel(
        self, name, start, duration, correlation=None, *, pid=PID, device=0, stream=7, node=None
    ):
        """A kernel; ``node`` says which node of a CUDA graph it is."""
        names = dict.fromkeys(("demangledName", "shortName", "mangledName"), self.string(name))
        graph_node = None if node is None else GRAPH_EXEC << 32 | node
        where = (correlation, pid, device, stream)
        self._on_gpu(KERNEL, start, duration, *where, **names, graphNodeId=graph_node, gridX=1)

    def replay(self, start, duration, correlation=None, *, pid=PID, device=0, stream=7):
        """A graph replay recorded as a whole."""
        ids = {"graphId": 1, "graphExecId": GRAPH_EXEC}
        self._on_gpu(GRAPH_TRACE, start, duration, correlation, pid, device, stream, **ids)

    def copy(self, start, duration, correlation=None, *, size=4, kind=1, pid=PID, device=0):
        """A memory copy; kind 1 is host to device, 2 device to host, 9 host to host."""
        where = (correlation, pid, device, 7)
        self._on_gpu(CUPTI + "MEMCPY", start, duration, *where, bytes=size, copyKind=kind)

    def memset(self, start, duration, correlation=None, *, size=4, pid=PID, device=0):
        self._on_gpu(CUPTI + "MEMSET", start, duration, correlation, pid, device, 7, bytes=size)

    def range(self, label, start, end, *, kind=PUSH_POP, by_id=False, pid=PID, tid=TID):
        """An NVTX range; ``end`` may be None, and the label inline or in StringIds."""
        text = {"textId": self.string(label)} if by_id else {"text": label}
        moments = {"start": ns(start), "end": None if end is None else ns(end)}
        thread = global_pid(pid, self.hardware) | tid
        self.row("NVTX_EVENTS", **moments, eventType=kind, globalTid=thread, **text)

    def step(
        self, label, kernels=(), *, graph=(), replay=None, late=(), at=None, lag=10,
        end=20, pid=PID, tid=TID, device=0, by_id=False,
    ):  # fmt: skip
        """A step label and its work: launches, one graph's kernels or an opaque replay of that
        many µs, and kernels launched ``late``, after the range has closed."""
        start = self._next_step.get((pid, tid), 100) if at is None else at
        self._next_step[pid, tid] = start + 100
        self.range(label, start, end and start + end, by_id=by_id, pid=pid, tid=tid)
        who, gpu, when = {"pid": pid, "tid": tid}, {"pid": pid, "device": device}, start
        on_gpu = start + lag
        for name, duration in kernels:
            when += 1
            self.kernel(name, on_gpu, duration, self.call(LAUNCH, when, **who), **gpu)
            on_gpu += duration
        if graph or replay:
            when += 1
            launch = self.call(GRAPH_LAUNCH, when, **who)
        for node, (name, duration) in enumerate(graph):
            self.kernel(name, on_gpu, duration, launch, node=node, **gpu)
            on_gpu += duration
        if replay:
            self.replay(on_gpu, replay, launch, **gpu)
            on_gpu += replay
        for number, (name, duration) in enumerate(late, start=1):
            launch = self.call(LAUNCH, start + (end or 20) + number, **who)
            self.kernel(name, on_gpu, duration, launch, **gpu)
            on_gpu += duration
        return self

    def gpu(self, number, name, **columns):
        """A GPU of the host; up to 2020 its number stood in another column."""
        return self.row("TARGET_INFO_GPU", id=number, deviceId=number, name=name, **columns)

    def window(self, end):
        """The length of the capture on its own clock."""
        return self.row("ANALYSIS_DETAILS", globalVid=0, duration=ns(end), startTime=0, stopTime=0)

    def graph_mode(self, mode, prefix="PROCESS_0:"):
        key = f"{prefix}CUDA_GRAPH_TRACE_OPTIONS:MODE"
        return self.row("META_DATA_CAPTURE", name=key, value=mode)

    def write(self, path, *, lazy=True, shuffle=None, shift_ns=0, without=(), views=False):
        """Write the file. ``shift_ns`` moves every time, as ``--ts-normalize`` does."""
        rows = dict(self.rows)
        rows["StringIds"] = [{"id": n, "value": text} for text, n in self.string_ids.items()]
        if shift_ns and "META_DATA_EXPORT" in rows:
            shift = {"name": "EXPORT_CONFIG_TIME_SHIFT", "value": str(shift_ns)}
            rows["META_DATA_EXPORT"] = [*rows["META_DATA_EXPORT"], shift]
        with closing(sqlite3.connect(path)) as database, database:
            for name, (create, columns) in self.tables.items():
                mine = list(rows.get(name, ()))
                if name in without or (lazy and not mine):
                    continue
                if shuffle is not None:
                    random.Random(shuffle).shuffle(mine)  # noqa: S311
                real = f"{name}_data" if views else name
                database.execute(create.replace(f"TABLE {name} ", f"TABLE {real} "))
                database.executemany(
                    f"INSERT INTO {real} VALUES ({', '.join('?' * len(columns))})",
                    [[_value(row, *column, shift_ns) for column in columns] for row in mine],
                )
                if views:
                    database.execute(f"CREATE VIEW {name} AS SELECT * FROM {real}")
        return path


def change(path, *statements):
    """Run SQL on a written export; its path."""
    with closing(sqlite3.connect(path)) as database, database:
        for statement in statements:
            database.execute(statement)
    return path


def ns(microseconds):
    return round(microseconds * 1000)


def _times(start, duration):
    return {"start": ns(start), "end": ns(start) + ns(duration)}


def _value(row, name, kind, not_null, shift_ns):
    value = row.get(name)
    if value is None and not_null:
        value = json.dumps([]) if kind == "TEXT" else 0
    return value + shift_ns if name in _MOMENTS and value is not None else value
