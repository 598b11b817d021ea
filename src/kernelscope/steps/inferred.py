"""Steps from pieces of the launch order, in the form that labelled steps have."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import polars as pl

from kernelscope import frames
from kernelscope.steps.found import Steps
from kernelscope.steps.labels import DECODE
from kernelscope.steps.launches import Launches, Thread
from kernelscope.steps.marks import bounds_outside
from kernelscope.steps.windows import IN_NO_STEP, assign_calls

Ints = npt.NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Pieces:
    """The launches of one thread that are steps.

    Attributes:
        thread: whose launches.
        first: position of the first launch of each step, ascending; shape (steps,).
        last: position behind the last one, at most the next step's first; shape (steps,).
        labels: what to call each step.
    """

    thread: Thread
    first: Ints
    last: Ints
    labels: Sequence[str]


def steps_of(launches: Launches, pieces: Sequence[Pieces], method: str, evidence: str) -> Steps:
    """Steps of all threads, numbered in order of thread and time."""
    frame = pl.concat([_rows(piece) for piece in pieces]).with_row_index("step")
    numbers = np.cumsum([0, *(piece.first.size for piece in pieces)]).tolist()
    bounds = [
        _bounds(launches, piece, number) for piece, number in zip(pieces, numbers, strict=False)
    ]
    missing = [name for name in frames.STEPS if name not in frame.columns]
    frame = frame.with_columns(pl.lit(None).alias(name) for name in missing).select(
        pl.col(name).cast(dtype) for name, dtype in frames.STEPS.items()
    )
    return Steps(frame, assign_calls(launches.calls, pl.concat(bounds)), method, evidence)


def count(number: int, noun: str) -> str:
    """``1 thread``, ``1,023 threads``."""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def _rows(pieces: Pieces) -> pl.DataFrame:
    """A row per step of one thread, with the columns that are known."""
    thread = pieces.thread
    return pl.DataFrame(
        {
            "process": thread.process,
            "thread": thread.thread,
            "label": list(pieces.labels),
            "phase": DECODE,
            "start_ns": [thread.bound(int(position)) for position in pieces.first],
            "range_end_ns": thread.end_ns[pieces.last - 1],
        }
    )


def _bounds(launches: Launches, pieces: Pieces, number: int) -> pl.DataFrame:
    """Where the steps of one thread begin, the first being ``number``, and what is in none."""
    thread, first, last = pieces.thread, pieces.first, pieces.last
    ends = last[last != np.append(first[1:], thread.rows.size)]
    bounds = pl.DataFrame(
        {
            "start_ns": [thread.bound(int(position)) for position in (*first, *ends)],
            "step": [*range(number, number + first.size), *([IN_NO_STEP] * ends.size)],
        },
        schema={"start_ns": pl.Int64, "step": pl.Int32},
    ).select(pl.lit(thread.thread, pl.Int64).alias("thread"), "start_ns", "step")
    outside = bounds_outside(launches.marks, thread.process, thread.thread)
    return pl.concat([outside, bounds]).sort("start_ns", maintain_order=True)
