"""Layers by name: NVTX ranges that were open when the nodes of a CUDA graph were captured.

NVTX inside a captured graph is not replayed, but each kernel of a replay says which node it is,
and the capture may hold when and by which thread that node, or the one that it was cloned from,
was made.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl

from kernelscope import frames
from kernelscope.layers.line import Line
from kernelscope.layers.model import BEFORE, BEHIND, NVTX_AT_CAPTURE, Fold, Ints, Layer
from kernelscope.layers.units import compare, layer_kind
from kernelscope.trace import Trace

LAYER = r"(?i)\b((?:\w+\.)*(?:\w*layers?[._\[ ]?|\w*blocks?[._\[]|h\.)(\d+))\]?(?:\.(\w+))?"
"""A layer in a label, its number, and the part of it: ``model.layers.3.self_attn``."""
_KEY = ("process", "device", "start_ns", "end_ns")
_NORM = "norm"
_LEAST_NAMED = 0.5
_FEWEST = 2

Named = tuple[str, int, str | None]
"""The name of a layer, its number, and the part of it that a kernel is in, where known."""


@dataclass(frozen=True, eq=False)
class _Ranges:
    """Layer ranges of one thread by start; shapes (ranges,)."""

    start: Ints
    end: Ints
    latest_end: Ints
    names: list[Named]

    @classmethod
    def of(cls, rows: pl.DataFrame) -> _Ranges:
        start, end = rows["start_ns"].to_numpy(), rows["end_ns"].to_numpy()
        names = list(rows.select("layer", "number", "part").iter_rows())
        return cls(start, end, np.maximum.accumulate(end), names)

    def innermost(self, moment: int) -> Named | None:
        """The last range to begin among those open at that moment."""
        at = int(np.searchsorted(self.start, moment, side="right")) - 1
        while at >= 0 and self.latest_end[at] >= moment:
            if self.end[at] >= moment:
                return self.names[at]
            at -= 1
        return None


@dataclass(frozen=True, eq=False)
class GraphNames:
    """Finds the layer of a graph node through its capture."""

    trace: Trace
    made: dict[tuple[int, int], tuple[int, int]]
    """(process, node) -> thread and moment in which it was first made."""
    original: dict[tuple[int, int], int]
    """(process, node) -> the node that it was cloned from."""
    ranges: dict[int, _Ranges]

    @classmethod
    def of(cls, trace: Trace) -> GraphNames | None:
        """None where the capture has no node rows or no ranges that name layers.

        Raises:
            ExportError: the file is damaged.
        """
        nodes = trace.graph_nodes.drop_nulls("graph_node")
        ranges = frames.empty(frames.RANGES) if nodes.is_empty() else trace.ranges
        layers = _layer_ranges(ranges)
        if layers.is_empty():
            return None
        by_thread = layers.partition_by("thread", as_dict=True)
        first = nodes.sort("start_ns").unique(["process", "graph_node"], keep="first")
        clones = nodes.drop_nulls("original_node")
        return cls(
            trace,
            {(row[0], row[1]): (row[2], row[3]) for row in first.select(*_NODE).iter_rows()},
            {(row[0], row[1]): row[2] for row in clones.select(*_CLONE).iter_rows()},
            {int(thread): _Ranges.of(rows) for (thread,), rows in by_thread.items()},
        )

    def layer(self, process: int, node: int | None) -> Named | None:
        """The layer range in which a node was captured, or else one that it is a clone of."""
        seen: set[int] = set()
        found = None
        while node is not None and node not in seen:
            seen.add(node)
            thread, moment = self.made.get((process, node), (-1, 0))
            ranges = self.ranges.get(thread)
            found = (ranges.innermost(moment) if ranges else None) or found
            node = self.original.get((process, node))
        return found

    def layers_of(self, kernels: pl.DataFrame) -> list[Named | None]:
        """The layer of each kernel; ``kernels`` has ``process``, ``device`` and its times."""
        nodes = _nodes_of(self.trace, kernels)
        rows = kernels.join(nodes, on=list(_KEY), how="left", maintain_order="left")
        return [self.layer(*row) for row in rows.select("process", "graph_node").iter_rows()]


_NODE = ("process", "graph_node", "thread", "start_ns")
_CLONE = ("process", "graph_node", "original_node")


def _layer_ranges(ranges: pl.DataFrame) -> pl.DataFrame:
    """Ranges whose label names a layer: ``layer``, ``number`` and ``part`` beside the rest."""
    groups = pl.col("label").str.extract_groups(LAYER).struct
    fields = groups.rename_fields(["layer", "number", "part"]).alias("fields")
    return (
        ranges.with_columns(fields, pl.col("end_ns").fill_null(np.iinfo(np.int64).max))
        .unnest("fields")
        .with_columns(pl.col("number").cast(pl.Int64, strict=False))
        .drop_nulls("number")
        .sort("thread", "start_ns", maintain_order=True)
    )


def _nodes_of(trace: Trace, kernels: pl.DataFrame) -> pl.DataFrame:
    """The graph node of each of these kernels, by device and times."""
    wanted = kernels.select(_KEY)

    def matching(rows: pl.DataFrame) -> pl.DataFrame:
        return rows.join(wanted, on=list(_KEY), how="semi")

    pieces = trace.map_rows("kernels", [*_KEY, "graph_node"], matching)
    contract = frames.empty(frames.subset(frames.KERNELS, [*_KEY, "graph_node"]))
    return pl.concat([contract, *pieces]).unique(list(_KEY), keep="first", maintain_order=True)


def fold_by_names(line: Line, named: Sequence[Named | None]) -> Fold | None:
    """Fold a step by the layers of its kernels; None where less than half of them have one.

    A kernel without a name of its own between named ones goes with the one before it.
    """
    at = [position for position, layer in enumerate(named) if layer]
    if len(at) < _LEAST_NAMED * len(named) or len({named[place] for place in at}) < _FEWEST:
        return None
    rows: dict[str, int] = {}
    unit = np.full(len(named), BEFORE, np.int64)
    for position in range(at[0], at[-1] + 1):
        layer = named[position]
        unit[position] = rows.setdefault(layer[0], len(rows)) if layer else unit[position - 1]
    unit[at[-1] + 1 :] = BEHIND
    inside = [[int(place) for place in np.flatnonzero(unit == row)] for row in rows.values()]
    layers = tuple(_layer(line, [named[place] for place in mine], mine) for mine in inside)
    kernels = [tuple(line.categories[place] for place in mine) for mine in inside]
    deviating = compare([layer.kind for layer in layers], kernels).deviating
    return Fold(unit, layers, NVTX_AT_CAPTURE, deviating)


def _layer(line: Line, named: Sequence[Named | None], places: Sequence[int]) -> Layer:
    """One layer, called by its parts where the ranges name them."""
    known = [name for name in named if name]
    parts = dict.fromkeys(part for _, _, part in known if part and _NORM not in part.lower())
    kind = " + ".join(parts) or layer_kind(tuple(line.categories[place] for place in places))
    return Layer(known[0][1], kind, known[0][0])
