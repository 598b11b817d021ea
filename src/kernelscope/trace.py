"""A trace: what one capture recorded, whatever file it came from.

A :class:`Trace` is a frozen handle. It knows the capture's facts at once and reads its tables
when they are asked for, whole (:attr:`Trace.kernels` and its neighbours, kept once read) or
piece by piece (:meth:`Trace.map_rows`), so that a trace larger than memory can be summarized.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Protocol, TypeVar

import polars as pl

from kernelscope import frames
from kernelscope.findings import Finding
from kernelscope.inspection import Inspection

T = TypeVar("T")
_MOST_DIAGNOSTIC = 160
Progress = Callable[[int, int], None]
"""Called with rows read so far and rows expected, from any thread."""


def pid(process: int) -> int:
    """The operating system's process id within nsys's process key."""
    return process >> 24 & 0xFFFFFF


@dataclass(frozen=True)
class Gpu:
    """One GPU of the host, as the capture recorded it; null where it did not."""

    id: int
    name: str
    cuda_ordinal: int | None = None
    memory_bandwidth_bytes_per_s: int | None = None
    memory_bytes: int | None = None
    multiprocessors: int | None = None
    compute_capability: str | None = None


@dataclass(frozen=True)
class Diagnostic:
    """What the profiler itself had to say about a capture; ``is_error`` or a warning."""

    text: str
    is_error: bool
    times: int = 1

    @property
    def shortened(self) -> str:
        """The text on one line of at most 160 characters."""
        return " ".join(self.text.split())[:_MOST_DIAGNOSTIC]


@dataclass(frozen=True)
class KeptSteps:
    """What only the whole capture could tell about the steps of a part of it.

    Attributes:
        method: how the steps were found there; a name in :data:`kernelscope.steps.METHODS`.
        steps: how many of them were kept; they are numbered from 0 here.
        status: steps that are in no average there -> why.
        unfollowed: steps after which something is missing here, or came a pause there.
    """

    method: str
    steps: int
    status: Mapping[int, str]
    unfollowed: frozenset[int]


@dataclass(frozen=True)
class Derived:
    """That a trace is a part of another one: ``told`` says of which, in words."""

    told: str
    kept: KeptSteps | None = None


@dataclass(frozen=True)
class TraceInfo:
    """Facts about a capture that need no look at its kernels.

    ``graph_trace`` is what the capture was told to record of CUDA graphs: ``"node"`` (each
    kernel), ``"graph"`` (each replay as a whole) or ``"unknown"``. ``exporter`` and ``schema``
    are nsys's versions, null where the file does not say. ``window_end_ns`` is the end of the
    capture on its own clock.
    """

    path: str
    exporter: str | None = None
    schema: str | None = None
    graph_trace: str = "unknown"
    window_end_ns: int | None = None
    started_utc_ns: int | None = None
    """When the capture began: nanoseconds since 1970, by the host's clock."""
    gpus: tuple[Gpu, ...] = ()
    gpu_of_device: tuple[tuple[int, int, int], ...] = ()
    """(pid, device ordinal in that process, GPU id) where the capture recorded it."""
    process_names: tuple[tuple[int, str], ...] = ()
    """(process key, name)."""
    diagnostics: tuple[Diagnostic, ...] = ()
    """Distinct warnings and errors that the profiler recorded, in order of time."""
    findings: tuple[Finding, ...] = ()
    derived: Derived | None = None
    """Set if the file is a part of another one (``kernelscope trim``)."""

    def gpu(self, process: int, device: int) -> Gpu | None:
        """The GPU behind a process's device ordinal, if the capture lets us tell."""
        by_id = {gpu.id: gpu for gpu in self.gpus}
        process_id = pid(process)
        for owner, ordinal, gpu_id in self.gpu_of_device:
            if (owner, ordinal) == (process_id, device):
                return by_id.get(gpu_id)
        by_ordinal = {gpu.cuda_ordinal: gpu for gpu in self.gpus}
        return by_ordinal.get(device, by_id.get(device))


class Source(Protocol):
    """Where a trace's rows come from; one implementation per file format."""

    def map_rows(
        self, table: str, columns: Sequence[str], function: Callable[[pl.DataFrame], T]
    ) -> list[T]:
        """Apply ``function`` to the table, piece by piece; results in row order."""

    def ranges(self, prefix: str) -> pl.DataFrame:
        """NVTX ranges whose label begins so (:data:`frames.RANGES`)."""

    def strings(self, ids: Collection[int]) -> dict[int, str]:
        """The text of each id; an id that leads nowhere becomes ``"#<id>"``."""

    def inspect(self) -> Inspection:
        """A close look at the whole file."""

    def check_has_work(self) -> None:
        """Return if there is GPU work to look at; NoKernels says why there is none."""


@dataclass(frozen=True, eq=False)
class Trace:
    """One capture. Frames follow the contracts in :mod:`kernelscope.frames`."""

    info: TraceInfo
    source: Source = field(repr=False)

    @cached_property
    def kernels(self) -> pl.DataFrame:
        """Every kernel execution, sorted by ``start_ns``, with its full name as ``name``."""
        kernels = self.read("kernels").sort("start_ns", maintain_order=True)
        names = self.names(kernels["name_id"]).rename({"id": "name_id"})
        return kernels.join(names, on="name_id", how="left", maintain_order="left")

    @cached_property
    def graph_replays(self) -> pl.DataFrame:
        """CUDA-graph replays recorded as a whole (:data:`frames.GRAPH_REPLAYS`)."""
        return self.read("graph_replays")

    @cached_property
    def copies(self) -> pl.DataFrame:
        """Memory copies (:data:`frames.COPIES`)."""
        return self.read("copies")

    @cached_property
    def sets(self) -> pl.DataFrame:
        """Memory sets (:data:`frames.SETS`)."""
        return self.read("sets")

    @cached_property
    def api_calls(self) -> pl.DataFrame:
        """CUDA API calls (:data:`frames.API_CALLS`), with their names as ``name``."""
        calls = self.read("api_calls")
        names = self.names(calls["name_id"]).rename({"id": "name_id"})
        return calls.join(names, on="name_id", how="left", maintain_order="left")

    @cached_property
    def graph_nodes(self) -> pl.DataFrame:
        """The making of CUDA-graph nodes (:data:`frames.GRAPH_NODES`)."""
        return self.read("graph_nodes")

    @cached_property
    def ranges(self) -> pl.DataFrame:
        """NVTX ranges (:data:`frames.RANGES`)."""
        return self.find_ranges("")

    def find_ranges(self, prefix: str) -> pl.DataFrame:
        """NVTX ranges whose label begins with ``prefix`` (:data:`frames.RANGES`)."""
        return self.source.ranges(prefix)

    def read(self, table: str, columns: Sequence[str] | None = None) -> pl.DataFrame:
        """A table by its name (``"kernels"``, ``"copies"``, ...), or some of its columns."""
        wanted = list(columns or frames.TABLES[table])
        pieces = self.source.map_rows(table, wanted, lambda piece: piece)
        return pl.concat([frames.empty(frames.subset(frames.TABLES[table], wanted)), *pieces])

    def map_rows(
        self, table: str, columns: Sequence[str], function: Callable[[pl.DataFrame], T]
    ) -> list[T]:
        """Apply ``function`` to a table piece by piece, in several threads.

        The pieces cover every row once; results come in the order of the rows in the file.
        ``function`` must be free of side effects on shared data.
        """
        return self.source.map_rows(table, columns, function)

    def inspect(self) -> Inspection:
        """A close look at the whole file: whether it is sound, and what it holds.

        Raises:
            ExportError: the file is too damaged to be looked at.
        """
        return self.source.inspect()

    def names(self, ids: pl.Series) -> pl.DataFrame:
        """The text behind name ids: columns ``id`` (int64, distinct) and ``name`` (string)."""
        distinct = ids.unique().drop_nulls().sort()
        texts = self.source.strings(distinct.to_list())
        return pl.DataFrame(
            {"id": list(texts), "name": list(texts.values())},
            schema={"id": pl.Int64, "name": pl.String},
        )
