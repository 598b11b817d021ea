"""What a timeline shows, as frames with a lane for each event."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass, field
from functools import cache
from importlib import resources

import polars as pl

from kernelscope.analysis import Analysis
from kernelscope.layers import find_layer_spans
from kernelscope.measure import measure
from kernelscope.step_table import build_step_table
from kernelscope.steps.windows import read_calls
from kernelscope.summary.tables import with_batch
from kernelscope.timeline.events import head
from kernelscope.timeline.lanes import Lanes, side_by_side
from kernelscope.trace import Trace, pid

EVENTS = ("start_ns", "end_ns", "pid", "tid", "step", "head")

_GREY = "generic_work"
_KINDS = {"copies": "memory copy", "sets": "memory set"}
_ACTIVITY = ("start_ns", "end_ns", "process", "device", "stream")


@dataclass
class Heads:
    """The distinct beginnings of events, each once."""

    texts: list[str] = field(default_factory=list)
    _known: dict[str, int] = field(default_factory=dict)

    def of(self, text: str) -> int:
        """The number of a beginning."""
        number = self._known.setdefault(text, len(self.texts))
        if number == len(self.texts):
            self.texts.append(text)
        return number


def above_device(trace: Trace, found: Analysis, lanes: Lanes, heads: Heads) -> pl.DataFrame:
    """Phases, steps and layers, in lanes above those of the device (:data:`EVENTS`)."""
    table = with_batch(
        build_step_table(trace.info, found.steps, measure(trace, found.steps, found.placed)),
        split=False,
    )
    steps = table.filter(pl.col("first_ns").is_not_null()).select(
        "rank",
        "step",
        "phase",
        "status",
        "label",
        start_ns="first_ns",
        end_ns=pl.col("first_ns") + pl.col("span_ns"),
    )
    spans = find_layer_spans(found.placed, found.names, table, trace)
    return pl.concat(
        [
            _laned(trace, found, lanes, _phases(steps, heads), "phases"),
            _laned(trace, found, lanes, _steps(steps, heads), "steps"),
            _laned(trace, found, lanes, _layers(spans, heads), "layers"),
        ]
    )


def device_work(trace: Trace, found: Analysis, lanes: Lanes, heads: Heads) -> pl.DataFrame:
    """Kernels, replays, copies and sets (:data:`EVENTS`, and ``call``: row of the launch or -1)."""
    names = [
        heads.of(
            head(
                row["category"],
                row["family"],
                {"kernel": row["short_name"], "name": row["name"]},
                colour=colours().get(row["category"], _GREY),
            )
        )
        for row in found.names.to_dicts()
    ]
    placed = found.placed
    work = placed.work.select(
        "start_ns",
        "end_ns",
        "stream",
        "call",
        pl.Series("head", names, pl.Int32).gather(placed.work["name"]),
        placed.groups["rank"].gather(placed.work["group"]),
        placed.groups["step"].gather(placed.work["group"]),
    ).with_columns(step=pl.when(pl.col("step") >= 0).then("step"))
    work = pl.concat([work, *_memory(trace, found, heads)], how="diagonal")
    work = side_by_side(work, "rank", "stream")
    keys = work.select("rank", "stream", "beside").unique().sort("rank", "stream", "beside")
    numbers = [
        lanes.of(
            _group(trace, found, rank),
            f"stream {stream}" + (f", beside it {beside}" if beside else ""),
        )
        for rank, stream, beside in keys.iter_rows()
    ]
    return _numbered(work, keys, numbers).select(*EVENTS, "call")


def launching_calls(
    trace: Trace, found: Analysis, lanes: Lanes, heads: Heads, used: pl.Series
) -> pl.DataFrame:
    """API calls that started work (:data:`EVENTS`, and ``call``)."""
    launches = found.steps.launches.with_row_index("call").select(
        pl.col("call").cast(pl.Int32), "process", "correlation_id", "step"
    )
    calls = (
        read_calls(trace, "end_ns")
        .join(launches[used.to_list()], on=["process", "correlation_id"])
        .with_columns(step=pl.when(pl.col("step") >= 0).then("step"))
    )
    texts = trace.names(calls["name_id"])
    numbered = {id_: heads.of(head(name, "api call", {})) for id_, name in texts.iter_rows()}
    calls = calls.with_columns(
        head=pl.col("name_id").replace_strict(numbered, default=None, return_dtype=pl.Int32),
        end_ns=pl.max_horizontal("start_ns", pl.col("end_ns").fill_null(pl.col("start_ns"))),
    )
    calls = side_by_side(calls.drop_nulls("head"), "thread")
    keys = calls.select("process", "thread", "beside").unique().sort("process", "thread", "beside")
    numbers = [
        lanes.of(
            f"CPU: {_process(trace, process)}",
            f"thread {thread & 0xFFFFFF}" + (f", beside it {beside}" if beside else ""),
        )
        for process, thread, beside in keys.iter_rows()
    ]
    return _numbered(calls, keys, numbers).select(*EVENTS, "call")


@cache
def colours() -> dict[str, str]:
    """Category -> a colour that chrome://tracing reserves."""
    file = resources.files("kernelscope.timeline") / "colours.toml"
    return dict(tomllib.loads(file.read_text("utf-8"))["colours"])


def _memory(trace: Trace, found: Analysis, heads: Heads) -> list[pl.DataFrame]:
    """Copies and sets on devices that ran kernels."""
    pieces = []
    for table, name in _KINDS.items():
        is_possible = pl.col("end_ns") >= pl.col("start_ns")
        rows = trace.read(table, _ACTIVITY).filter(is_possible)
        number = heads.of(head(name, "memory", {}, colour=_GREY))
        pieces.append(
            rows.join(found.placed.ranks, on=["process", "device"]).select(
                "start_ns",
                "end_ns",
                pl.col("stream").fill_null(0),
                pl.lit(-1, pl.Int32).alias("call"),
                pl.lit(number, pl.Int32).alias("head"),
                "rank",
            )
        )
    return pieces


def _phases(steps: pl.DataFrame, heads: Heads) -> pl.DataFrame:
    """Neighbouring steps of one phase as one event."""
    runs = (
        steps.sort("rank", "start_ns")
        .with_columns(run=pl.col("phase").rle_id().over("rank"))
        .group_by("rank", "run", maintain_order=True)
        .agg(pl.col("phase").first(), pl.len(), pl.col("start_ns").min(), pl.col("end_ns").max())
    )
    numbers = [
        heads.of(head(phase, "phase", {"steps": count}))
        for phase, count in runs.select("phase", "len").iter_rows()
    ]
    return runs.with_columns(head=pl.Series(numbers, dtype=pl.Int32), step=None)


def _steps(steps: pl.DataFrame, heads: Heads) -> pl.DataFrame:
    numbers = [
        heads.of(head(f"{phase} step", "step", {"label": label, "status": status}))
        for phase, label, status in steps.select("phase", "label", "status").iter_rows()
    ]
    return steps.with_columns(head=pl.Series(numbers, dtype=pl.Int32))


def _layers(spans: pl.DataFrame, heads: Heads) -> pl.DataFrame:
    numbers = [
        heads.of(head(kind, "layer", {"layer": index, "module": name}))
        for index, kind, name in spans.select("layer_index", "layer_kind", "layer_name").iter_rows()
    ]
    return spans.with_columns(head=pl.Series(numbers, dtype=pl.Int32))


def _laned(
    trace: Trace, found: Analysis, lanes: Lanes, events: pl.DataFrame, lane: str
) -> pl.DataFrame:
    events = side_by_side(
        events.select("rank", "start_ns", "end_ns", pl.col("step").cast(pl.Int32), "head"), "rank"
    )
    keys = events.select("rank", "beside").unique().sort("rank", "beside")
    numbers = [
        lanes.of(_group(trace, found, rank), lane + (f", beside it {beside}" if beside else ""))
        for rank, beside in keys.iter_rows()
    ]
    return _numbered(events, keys, numbers).select(EVENTS)


def _numbered(
    events: pl.DataFrame, keys: pl.DataFrame, numbers: list[tuple[int, int]]
) -> pl.DataFrame:
    """Events with the ``pid`` and ``tid`` of their lane."""
    lanes = pl.DataFrame(numbers, schema={"pid": pl.Int32, "tid": pl.Int32}, orient="row")
    table = pl.concat([keys, lanes], how="horizontal")
    return events.join(table, on=keys.columns, how="left", maintain_order="left")


def _group(trace: Trace, found: Analysis, rank: int) -> str:
    _, process, device = found.placed.ranks.row(rank)
    gpu = trace.info.gpu(process, device)
    return f"GPU {device} ({gpu.name if gpu else 'unknown GPU'}), {_process(trace, process)}"


def _process(trace: Trace, process: int) -> str:
    name = dict(trace.info.process_names).get(process)
    return f"{name} (pid {pid(process)})" if name else f"pid {pid(process)}"
