"""The figures of a summary: frozen nouns.

Milliseconds are float64; a share is a fraction of the phase's kernel time.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt


@dataclass(frozen=True)
class Spread:
    """Median, 10th and 90th percentile (linear interpolation), minimum and maximum."""

    median: float
    p10: float
    p90: float
    min: float
    max: float

    @classmethod
    def of(cls, values: npt.NDArray[np.float64]) -> Spread:
        """The spread of at least one value."""
        return cls(*(float(value) for value in np.percentile(values, (50, 10, 90, 0, 100))))


@dataclass(frozen=True)
class Counts:
    """Median, minimum and maximum of a count per step."""

    median: float
    min: int
    max: int


@dataclass(frozen=True)
class LargestKernel:
    """The longest single kernel of a phase's complete steps."""

    name: str
    short_name: str
    category: str
    duration_ms: float
    """Of that one execution."""
    share: float
    """Of the kernel time of its phase's average step, for one such execution."""


@dataclass(frozen=True)
class MemoryOperations:
    """Memory copies and sets per step: means over the complete steps. Never part of a share."""

    copies_per_step: float
    copy_ms: float
    copied_bytes: float
    sets_per_step: float
    set_ms: float


@dataclass(frozen=True)
class PhaseSummary:
    """The complete steps of one phase on one rank.

    ``kernel_ms``, ``busy_ms``, ``span_ms`` and ``idle_ms`` are means per step, so that
    categories add up to ``kernel_ms`` and ``busy_ms + idle_ms = span_ms``.
    """

    phase: str
    rank: int
    batch: int | None
    """Requests of each step, if steps were split by batch size."""
    steps: int
    incomplete_steps: int
    excluded_steps: int
    """Steps of this phase in no average for another reason; see ``Summary.excluded``."""
    requests_per_step: Counts | None
    kernels_per_step: Counts
    wall_ms: Spread | None
    """First kernel start to the next step's first kernel start, where a step follows."""
    span_ms: float
    """First kernel start to last kernel end."""
    kernel_ms: float
    """Sum of kernel durations (and of opaque replays)."""
    busy_ms: float
    """Time in which at least one kernel ran: the union of their intervals on the device."""
    idle_ms: float
    """``span_ms - busy_ms``; the next three add up to it (:mod:`kernelscope.idle`)."""
    idle_inside_replay_ms: float
    """Between kernels that one call launched: the graph itself leaves the device idle."""
    idle_for_cpu_ms: float
    """Until the call that launches the next kernel was made: nothing could run."""
    idle_between_launches_ms: float
    """From that call to the kernel's start."""
    overlap_ms: float
    """``kernel_ms - busy_ms``: time in which kernels ran side by side."""
    gap_ms: float | None
    """Median idle time between the last kernel and the next step's first."""
    launch_calls_per_step: float
    """Median number of API calls that start kernels; a graph launch counts once."""
    graph_launches_per_step: float
    tokens_per_s: float | None
    """Generated tokens over wall time (median); null where the label cannot tell how many."""
    prompt_tokens_per_s: float | None
    opaque_share: float
    """Share of kernel time inside replays that were not recorded kernel by kernel. If it is
    above 0, every other share is a lower bound."""
    largest_kernel: LargestKernel | None
    memory: MemoryOperations


@dataclass(frozen=True)
class Rank:
    """One process on one GPU, with its work in the whole capture."""

    rank: int
    pid: int
    process: str | None
    device: int
    gpu: str | None
    kernels: int
    kernel_ms: float


@dataclass(frozen=True)
class Left:
    """Work that enters no average, and why."""

    reason: str
    phase: str | None
    steps: int
    kernels: int
    kernel_ms: float
