"""Thought experiments on a step: what it would take if part of it were faster."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import polars as pl

from kernelscope.ceilings.against import MatchedSteps
from kernelscope.ceilings.model import WhatIf
from kernelscope.intervals import covered

_NS_PER_MS = 1e6
_GOOD = 0.9
"""Of peak: what a well-tuned kernel that streams its operands reaches."""
_UNCHANGED = "provided that all other kernels and the idle time stay as they are"


def thought_experiments(steps: MatchedSteps, rows: pl.DataFrame, step_ms: float) -> list[WhatIf]:
    """What a step of ``step_ms`` would take; the multiplies first, then categories by effect.

    Args:
        steps: the steps.
        rows: their rows of the table.
        step_ms: what a step takes now.
    """
    return [_faster_multiplies(rows, steps.key[1], step_ms), *_without(steps, step_ms)]


def _faster_multiplies(rows: pl.DataFrame, phase: str, step_ms: float) -> WhatIf:
    gemm = rows.filter(pl.col("kind") == "gemm")
    saved = (gemm["kernel_ms"] - gemm["floor_ms"] / _GOOD).clip(lower_bound=0.0).sum()
    then = step_ms - float(saved)
    return WhatIf(
        f"gemms at {_GOOD:.0%} of peak".replace("%", " %"),
        then,
        step_ms,
        f"If all GEMMs ran at {_GOOD * 100:.0f} % of peak bandwidth (of peak compute where that "
        f"binds), a {phase} step would take {then:,.2f} ms instead of {step_ms:,.2f} ms, "
        f"{_UNCHANGED}.",
    )


def _without(steps: MatchedSteps, step_ms: float) -> Iterator[WhatIf]:
    for category, alone_ms in exclusive_ms(steps).items():
        then = step_ms - alone_ms
        yield WhatIf(
            f"{category} takes no time",
            then,
            step_ms,
            f"If {category} took no time, a {steps.key[1]} step would take at least "
            f"{then:,.2f} ms instead of {step_ms:,.2f} ms: the {alone_ms:,.2f} ms in which only "
            f"{category} runs would go, {_UNCHANGED}.",
        )


def exclusive_ms(steps: MatchedSteps) -> dict[str, float]:
    """Time per step in which kernels of one category run and no others; largest first."""
    sequences = steps.sequences
    chosen = np.zeros(sequences.steps.height, bool)
    chosen[steps.steps["row"].to_numpy()] = True
    mine = chosen[sequences.row]
    start, end, group, name = (
        sequences.work[column].to_numpy()[mine]
        for column in ("start_ns", "end_ns", "group", "name")
    )
    categories = sequences.categories.unique().to_list()
    code = sequences.categories.replace_strict(
        categories, range(len(categories)), return_dtype=pl.Int16
    ).to_numpy()[name]
    whole = covered(start, end, group)
    found = {}
    for number in np.unique(code).tolist():
        rest = code != number
        without = covered(start[rest], end[rest], group[rest])
        found[categories[number]] = (whole - without) / steps.steps.height / _NS_PER_MS
    return dict(sorted(found.items(), key=lambda pair: -pair[1]))
