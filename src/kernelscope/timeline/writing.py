"""Writing a timeline: batches of events, through gzip where the name asks for it."""

from __future__ import annotations

import gzip
import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import BinaryIO

import polars as pl

from kernelscope.analysis import analyze
from kernelscope.nsys import read_export
from kernelscope.rules import RuleTable
from kernelscope.timeline import work
from kernelscope.timeline.events import document, flows, slices
from kernelscope.timeline.lanes import Lanes
from kernelscope.trace import Trace
from kernelscope.writing import replacing

# More takes longer than everything else together and saves little.
_LEVEL = 1
_NO_EVENT_NS = 2**63 - 1


@dataclass(frozen=True)
class Timeline:
    """What was written.

    Attributes:
        events: device work, calls, steps, phases and layers.
        arrows: from a launching call to the first thing that it started.
        lanes: lines that viewers show.
    """

    events: int
    arrows: int
    lanes: int


def write_timeline(
    trace: Trace | str | os.PathLike[str],
    path: str | os.PathLike[str],
    *,
    rules: RuleTable | None = None,
    overwrite: bool = False,
) -> Timeline:
    """Write a trace in the Trace Event Format, for ui.perfetto.dev and chrome://tracing.

    Kernels are named and coloured by category, one lane per process, device and stream; phases,
    steps and layers lie above, and an arrow leads from each launching call to its first kernel.

    Args:
        trace: a trace, or the path of an nsys export.
        path: the file to write; compressed if it ends in ``.gz``.
        rules: the rule table to use; by default the built-in one.
        overwrite: whether an existing file may be replaced.

    Raises:
        OutputError: the file exists and ``overwrite`` is false, it is the trace itself, or it
            cannot be written.
        ExportError: the path cannot be read as an nsys export, or the file is damaged.
    """
    if not isinstance(trace, Trace):
        trace = read_export(trace)
    path = Path(path)
    with replacing(path, overwrite=overwrite, trace=trace.info.path) as beside:
        return _write(trace, beside, rules, is_compressed=path.suffix == ".gz")


def _write(trace: Trace, path: Path, rules: RuleTable | None, *, is_compressed: bool) -> Timeline:
    found = analyze(trace, rules=rules, streams=True)
    lanes, heads = Lanes(), work.Heads()
    above = work.above_device(trace, found, lanes, heads)
    device = work.device_work(trace, found, lanes, heads)
    arrows = _arrow_ends(device)
    calls = work.launching_calls(trace, found, lanes, heads, arrows["call"])
    starts = calls.select("pid", "tid", id="call", at_ns="start_ns")
    times_ns = pl.concat(frame["start_ns"] for frame in (device, calls, above))
    origin_ns = int(times_ns.to_numpy().min(initial=_NO_EVENT_NS))
    facts = {"kernelscope_version": version("kernelscope"), "origin_ns": origin_ns}

    def batches() -> Iterator[str]:
        yield ",\n".join(lanes.metadata())
        for events in (above, calls, device):
            yield from slices(events, heads.texts, origin_ns)
        yield from flows(starts, "s", origin_ns)
        yield from flows(arrows.rename({"call": "id"}), "f", origin_ns)

    with _opened(path, is_compressed=is_compressed) as file:
        _write_all(file, document(batches(), facts))
    written = above.height + calls.height + device.height
    return Timeline(written, arrows.height, lanes.count)


def _arrow_ends(device: pl.DataFrame) -> pl.DataFrame:
    """The first work of each launching call: ``call``, ``at_ns``, ``pid``, ``tid``."""
    first = pl.col("start_ns").arg_min()
    return (
        device.lazy()
        .filter(pl.col("call") >= 0)
        .group_by("call")
        .agg(pl.col("start_ns").min().alias("at_ns"), pl.col("pid", "tid").get(first))
        .sort("call")
        .collect()
    )


@contextmanager
def _opened(path: Path, *, is_compressed: bool) -> Iterator[BinaryIO]:
    with path.open("wb") as file:
        if not is_compressed:
            yield file
            return
        # Without a name and a time in its header the same trace gives the same bytes.
        with gzip.GzipFile("", "wb", _LEVEL, file, mtime=0) as packed:
            yield packed  # type: ignore[misc]


def _write_all(file: BinaryIO, texts: Iterable[str]) -> None:
    file.writelines(text.encode() for text in texts)
