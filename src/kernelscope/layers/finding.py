"""The layers of a trace: fold each usual step, apply that to all steps, add up."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import numpy.typing as npt
import polars as pl

from kernelscope.layers.line import Line
from kernelscope.layers.model import (
    BEFORE_LAYERS,
    BEHIND_LAYERS,
    LEFT,
    NOT_FOLDED,
    Fold,
    Ints,
    Layers,
)
from kernelscope.layers.phases import FoldedPhase, fold_phases
from kernelscope.layers.sequences import Sequences
from kernelscope.layers.tables import family_table, kind_table, layer_table, unit_rows
from kernelscope.placement import Placed
from kernelscope.rules.tables import CUDA_GRAPH
from kernelscope.trace import Trace

_OUTSIDE = {-1: BEFORE_LAYERS, -2: BEHIND_LAYERS, -3: NOT_FOLDED}


def find_layers(
    placed: Placed, names: pl.DataFrame, steps: pl.DataFrame, trace: Trace | None = None
) -> Layers:
    """Fold the complete steps of each rank and phase into the layers of the model.

    Args:
        placed: every kernel in its step.
        names: one row per number in ``placed.work["name"]``: ``name``, ``category``,
            ``family``.
        steps: the step table: ``rank``, ``phase``, ``step``, ``status``.
        trace: the capture, to look for NVTX ranges that name layers; without it layers are
            found by repetition alone.

    Raises:
        ExportError: the file is damaged.
    """
    sequences = Sequences.of(placed, names, steps)
    phases = list(fold_phases(sequences, placed, trace))
    folds = {phase.key: phase.usual for phase in phases if isinstance(phase.usual, Fold)}
    folded = [phase for phase in phases if phase.key in folds]
    counts = {phase.key: phase.steps.height for phase in phases}
    units = _placed_units(sequences, folded, names["family"])
    table = layer_table(units, folds, counts)
    held = {phase.key: _categories(phase.line, folds[phase.key]) for phase in folded}
    found = tuple(phase.described() for phase in phases)
    return Layers(table, kind_table(table, held), family_table(units, folds, counts), found)


def find_layer_spans(
    placed: Placed, names: pl.DataFrame, steps: pl.DataFrame, trace: Trace | None = None
) -> pl.DataFrame:
    """When each layer of each complete step ran; see :func:`find_layers` for the arguments.

    Returns:
        One row per rank, step and layer or part outside the layers: ``rank``, ``step``,
        ``start_ns`` (first kernel), ``end_ns`` (last kernel), ``layer_index`` (null outside),
        ``layer_kind``, ``layer_name``.

    Raises:
        ExportError: the file is damaged.
    """
    sequences = Sequences.of(placed, names, steps)
    folds = {
        phase.key: (phase, phase.usual)
        for phase in fold_phases(sequences, placed, trace)
        if isinstance(phase.usual, Fold)
    }
    unit, is_folded = _units(sequences, [phase for phase, _ in folds.values()])
    work = sequences.work.select(
        pl.Series("row", sequences.row), pl.Series("unit", unit), "start_ns", "end_ns"
    ).filter(pl.Series(is_folded[sequences.row]))
    spans = work.group_by("row", "unit").agg(pl.col("start_ns").min(), pl.col("end_ns").max())
    named = unit_rows({key: fold for key, (_, fold) in folds.items()}, dict.fromkeys(folds, 0))
    return (
        spans.with_columns(sequences.steps.select("rank", "phase", "step")[spans["row"]])
        .join(named, on=["rank", "phase", "unit"], how="left")
        .select("rank", "step", "start_ns", "end_ns", "layer_index", "layer_kind", "layer_name")
        .sort("rank", "start_ns", "end_ns")
    )


def _categories(line: Line, fold: Fold) -> dict[str, list[str]]:
    """What each kind of layer has in it, each category once, in launch order."""
    kinds = dict(enumerate(fold.kinds)) | _OUTSIDE
    held: dict[str, dict[str, None]] = {}
    for unit, category in zip(fold.unit.tolist(), line.categories, strict=True):
        held.setdefault(kinds[unit], {})[category] = None
    return {kind: list(categories) for kind, categories in held.items()}


def _placed_units(
    sequences: Sequences, phases: Iterable[FoldedPhase], families: pl.Series
) -> pl.DataFrame:
    """Kernels and time of each family in each layer of each step of the folded phases.

    A kernel's layer follows from its position in the step.
    """
    unit, is_folded = _units(sequences, phases)
    row, name = sequences.row, sequences.work["name"].to_numpy()
    is_kernel = (sequences.categories != CUDA_GRAPH).to_numpy()[name]
    work = sequences.work.select(
        pl.Series("row", row),
        pl.Series("unit", unit),
        pl.Series("kernels", is_kernel),
        pl.Series("name", name),
        kernel_ns=pl.col("end_ns") - pl.col("start_ns"),
    )
    sums = work.filter(pl.Series(is_folded[row])).group_by("row", "unit", "name").sum()
    return sums.with_columns(
        families[sums["name"]].alias("family"),
        *sequences.steps.select("rank", "phase")[sums["row"]],
    )


def _units(
    sequences: Sequences, phases: Iterable[FoldedPhase]
) -> tuple[Ints, npt.NDArray[np.bool_]]:
    """The layer of each kernel, shape (kernels,), and which steps are of a folded phase."""
    offsets = np.full(sequences.steps.height, -1, np.int64)
    is_folded = np.zeros(sequences.steps.height, bool)
    flat: list[Ints] = [np.full(1, LEFT, np.int64)]
    size = 1
    for phase in phases:
        rows, mine = phase.steps["row"].to_numpy(), phase.steps["sequence"].to_numpy()
        is_folded[rows] = True
        for sequence, fold in phase.folds.items():
            offsets[rows[mine == np.uint64(sequence)]] = size
            flat.append(fold.unit)
            size += fold.unit.size
    row = sequences.row
    at = np.where(offsets[row] < 0, 0, offsets[row] + sequences.position)
    return np.concatenate(flat)[at], is_folded
