"""A close look at the file itself: what it holds, and whether it is sound."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class Inspection:
    """What a file says about its own making, beyond :class:`kernelscope.trace.TraceInfo`.

    Attributes:
        size_bytes: of the file.
        damage: what a check of the whole file found, in the words of its format's library;
            empty if it is sound.
        rows: rows per table that is read, by the file's own name for it.
        profiler_starts, profiler_stops: calls of the process that opened or closed the window.
        start_up_calls: calls in the window that only start-up makes (loading of modules, graph
            capture), by what they do.
    """

    size_bytes: int
    damage: tuple[str, ...]
    rows: Mapping[str, int]
    profiler_starts: int
    profiler_stops: int
    start_up_calls: Mapping[str, int]
