"""Two traces compared: time per step, what accounts for the change, and in which kernels."""

from __future__ import annotations

import os
from collections.abc import Sequence

import numpy as np
import polars as pl

from kernelscope.comparison.alignment import align
from kernelscope.comparison.changes import Change, find_changes
from kernelscope.comparison.model import PARTS, PLACES, Comparison, PhaseComparison
from kernelscope.comparison.notes import find_notes
from kernelscope.comparison.parts import Samples, part_table
from kernelscope.comparison.side import Side, read_side
from kernelscope.comparison.significance import Shift, find_shift
from kernelscope.comparison.usual import UsualStep
from kernelscope.layers.tables import PhaseKey
from kernelscope.rules import RuleTable
from kernelscope.rules.tables import CUDA_GRAPH
from kernelscope.trace import Trace

__all__ = [
    "PARTS",
    "PLACES",
    "Comparison",
    "PhaseComparison",
    "Shift",
    "Side",
    "compare",
    "compare_sides",
    "read_side",
]

_PLACE = ("change", "layer_kind", "role", "category", "kernel_before", "kernel_after")


def compare(
    before: Trace | str | os.PathLike[str],
    after: Trace | str | os.PathLike[str],
    *,
    rules: RuleTable | None = None,
    context: bool = True,
) -> Comparison:
    """Say what changed from one trace to another, per step, category and kernel.

    Args:
        before: a trace, or the path of an nsys export.
        after: the other one.
        rules: the rule table to use; by default the built-in one.
        context: whether surroundings decide what names cannot.

    Raises:
        ExportError: a path cannot be read as an nsys export, or a file is damaged.
    """
    first, second = (read_side(one, rules=rules, context=context) for one in (before, after))
    return compare_sides(first, second)


def compare_sides(before: Side, after: Side) -> Comparison:
    """Compare what was taken of two traces; see :func:`compare`."""
    ours, theirs = (
        dict.fromkeys((phase.rank, phase.phase) for phase in side.summary.phases)
        for side in (before, after)
    )
    found = [_compare_phase(key, before, after) for key in ours if key in theirs]
    parts = [pl.DataFrame(schema=dict(PARTS)), *(parts for _, parts, _ in found)]
    places = [pl.DataFrame(schema=dict(PLACES)), *(places for _, _, places in found)]
    return Comparison(
        before.summary.provenance(),
        after.summary.provenance(),
        tuple(phase for phase, _, _ in found),
        pl.concat(parts),
        pl.concat(places),
        tuple(find_notes(before, after)),
    )


def _compare_phase(
    key: PhaseKey, before: Side, after: Side
) -> tuple[PhaseComparison, pl.DataFrame, pl.DataFrame]:
    samples = [Samples.of(side.summary, key) for side in (before, after)]
    walls = all(side.walls.size for side in samples)
    first, second = (side.walls if walls else side.spans for side in samples)
    usual = [side.usual.get(key) for side in (before, after)]
    places, declined = _places(key, usual)
    phase = PhaseComparison(
        rank=key[0],
        phase=key[1],
        measure="wall" if walls else "span",
        steps=(samples[0].steps.height, samples[1].steps.height),
        before_ms=float(np.median(first)),
        after_ms=float(np.median(second)),
        mean_before_ms=samples[0].mean_ms(walls=walls),
        mean_after_ms=samples[1].mean_ms(walls=walls),
        shift=find_shift(first, second) or Shift(0.0, None, None),
        usual=(usual[0].steps if usual[0] else 0, usual[1].steps if usual[1] else 0),
        declined=declined,
    )
    return phase, part_table(key, *samples, walls=walls), places


def _places(key: PhaseKey, usual: Sequence[UsualStep | None]) -> tuple[pl.DataFrame, str]:
    """What became of the kernels, or why that is not said."""
    none = pl.DataFrame(schema=dict(PLACES))
    before, after = usual
    if before is None or after is None:
        return none, "there are no steps to align"
    if CUDA_GRAPH in before.categories or CUDA_GRAPH in after.categories:
        return none, (
            "graph replays were recorded as a whole, without their kernels; capture both with "
            "--cuda-graph-trace=node"
        )
    blocks = align(before, after)
    if blocks is None:
        return none, "the steps have too many kernels to be aligned"
    rows = [_row(before, after, one) for one in find_changes(before, after, blocks)]
    table = pl.DataFrame(
        [{"rank": key[0], "phase": key[1], "places": 1} | row for row in rows], schema=dict(PLACES)
    )
    sums = table.group_by("rank", "phase", *_PLACE, maintain_order=True).agg(
        pl.col("places", "before_ms", "after_ms", "delta_ms").sum()
    )
    in_order = sums.select(pl.col(name).cast(kind) for name, kind in PLACES.items())
    return in_order.sort(-pl.col("delta_ms").abs(), maintain_order=True), ""


def _row(before: UsualStep, after: UsualStep, change: Change) -> dict[str, object]:
    step, at = (before, change.before) if change.before else (after, change.after)
    before_ms = float(before.ms[list(change.before)].sum())
    after_ms = float(after.ms[list(change.after)].sum())
    return {
        "change": change.kind,
        "layer_kind": step.layers[at[0]],
        "role": " + ".join(step.roles[one] for one in at),
        "category": step.categories[at[0]],
        "kernel_before": " + ".join(before.short_names[one] for one in change.before),
        "kernel_after": " + ".join(after.short_names[one] for one in change.after),
        "before_ms": before_ms,
        "after_ms": after_ms,
        "delta_ms": after_ms - before_ms,
    }
