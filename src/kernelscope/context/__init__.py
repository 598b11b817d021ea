"""What a kernel's name cannot settle, settled by its surroundings in the step.

Each pass looks at the kernels of a step in launch order and decides only what the rules left
open; every decision records its pass as the method:

``inductor-source``
    The sources of the run say what a generated kernel does; only if the caller has them.
``context-place``
    A generated kernel without operations in its name (``triton_poi_fused_0``) stands where,
    elsewhere in the trace, generated kernels with operations in their names stand, and those
    agree on one category. Of several in a row only the first stands there.
``context-norm``
    A generated reduction inside the model is the mean of a norm: Inductor reduces for nothing
    else between two matrix multiplies.
``context-rope``
    A generated pointwise kernel directly before the KV-cache write or attention, behind the QKV
    projection, applies the rotary embedding (and with it the scale of the QK-norm).
``context-pointwise``
    Any other generated pointwise kernel is elementwise, which is what "pointwise" says.
``context-sampling``
    An arg-max, softmax, sort or random-number kernel behind lm_head (the last matrix multiply
    of the step) chooses the token.

A split-K reduction stays a category of its own, and is tied to the multiply that was launched
just before it (``pair``).

Decisions are made per distinct surroundings and end as new names, so that nothing later looks
at single launches.
"""

from __future__ import annotations

import numpy as np
import polars as pl

from kernelscope.context.decisions import Decisions, distinct, rename, variants
from kernelscope.context.generated import decide_generated
from kernelscope.context.sequence import MULTIPLIES, LaunchSequence, OpenNames
from kernelscope.placement import Placed

METHODS = (
    "inductor-source",
    "context-place",
    "context-norm",
    "context-rope",
    "context-pointwise",
    "context-sampling",
)

SOURCES = {"name": pl.String, "following": pl.String, "source": pl.String}


def settle(
    placed: Placed, names: pl.DataFrame, sources: pl.DataFrame | None = None
) -> tuple[Placed, pl.DataFrame]:
    """Decide by context what the names left open.

    Args:
        placed: the kernels in their steps.
        names: one row per number in ``placed.work["name"]``: ``name``, ``category``, ``method``
            and any further columns.
        sources: what the run's sources say of generated kernels: ``name``, ``following`` (name
            of the generated kernel after it, null for the last of its graph), ``source``
            (category).

    Returns:
        The same kernels with a new ``name`` where their surroundings decided; and the names with
        a row for each new one and the column ``pair`` (int64, the row of the multiply whose parts
        a kernel adds up).
    """
    names = names.with_columns(pair=pl.lit(None, pl.Int64))
    open_names = OpenNames.of(names)
    if not open_names.any_open:
        return placed, names
    sequence = LaunchSequence.of(placed.work, names, open_names)
    sources = pl.DataFrame(schema=SOURCES) if sources is None else sources
    passes = (decide_generated(sequence, names, sources), _sampling(sequence), _pairs(sequence))
    return rename(placed, names, passes)


def _sampling(sequence: LaunchSequence) -> Decisions:
    position = np.flatnonzero(sequence.names.is_sampler[sequence.name])
    last_multiply = sequence.last_multiply[sequence.group[position]]
    behind = position[(last_multiply >= 0) & (position > last_multiply)]
    old, variant = distinct(pl.DataFrame({"old": sequence.name[behind]}))
    decided = old.with_columns(category=pl.lit("sampling"), method=pl.lit("context-sampling"))
    return Decisions(behind, variant, variants(decided))


def _pairs(sequence: LaunchSequence) -> Decisions:
    """Tie split-K reductions to the multiply just before them in the same step."""
    position = np.flatnonzero(sequence.names.is_splitk[sequence.name])
    before = sequence.neighbour(position, -1)
    is_multiply = np.append(sequence.categories.is_in(MULTIPLIES).to_numpy(), False)
    paired = is_multiply[before]
    position, before = position[paired], before[paired]
    rows, variant = distinct(pl.DataFrame({"old": sequence.name[position], "pair": before}))
    return Decisions(position, variant, variants(rows))
