"""What two traces are not comparable in, and why."""

from __future__ import annotations

from collections.abc import Iterator

import polars as pl

from kernelscope.comparison.parts import complete_steps
from kernelscope.comparison.side import Side
from kernelscope.layers.tables import PhaseKey

_SCHEDULED = {
    "context_requests": "requests that compute their prompt",
    "context_tokens": "prompt tokens",
    "generation_requests": "generating requests",
    "generation_tokens": "generated tokens",
}
_CLEARLY = 0.01


def find_notes(before: Side, after: Side) -> Iterator[str]:
    """One sentence per difference of the runs that is none of their speed."""
    sides = (before.summary, after.summary)
    gpus = [", ".join(sorted({rank.gpu or "unknown" for rank in one.ranks})) for one in sides]
    if gpus[0] != gpus[1]:
        yield f"Other GPU: {gpus[0]} before, {gpus[1]} after; times are not those of one change."
    ranks = [len(one.ranks) for one in sides]
    if ranks[0] != ranks[1]:
        yield f"Other number of ranks: {ranks[0]} before, {ranks[1]} after."
    methods = [one.step_method for one in sides]
    if methods[0] != methods[1]:
        yield f"Steps were found by {methods[0]} before and by {methods[1]} after."
    keys = [dict.fromkeys((one.rank, one.phase) for one in side.phases) for side in sides]
    for mine, other, where in ((*keys, "before"), (*reversed(keys), "after")):
        for rank, phase in mine:
            if (rank, phase) not in other:
                yield f"{phase} steps of rank {rank} are only {where}: nothing to compare with."
    for key in keys[0]:
        if key in keys[1]:
            yield from _scheduled(before, after, key)


def _scheduled(before: Side, after: Side, key: PhaseKey) -> Iterator[str]:
    """What the scheduler gave the steps of a phase."""
    means = [_means(side, key) for side in (before, after)]
    for column, noun in _SCHEDULED.items():
        first, second = (mean.get(column) for mean in means)
        if first is None or second is None:
            continue
        if abs(second - first) > _CLEARLY * max(first, second):
            yield (
                f"{key[1]} steps of rank {key[0]} have other work: {first:,.1f} {noun} per step "
                f"before, {second:,.1f} after (mean)."
            )


def _means(side: Side, key: PhaseKey) -> dict[str, float | None]:
    steps = complete_steps(side.summary, key)
    return dict(steps.select(pl.col(list(_SCHEDULED)).mean()).row(0, named=True))
