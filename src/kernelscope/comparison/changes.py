"""What became of each kernel of the usual step: stayed, changed, fused, split, new, removed."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

from kernelscope.comparison.alignment import Block
from kernelscope.comparison.usual import UsualStep

SAME, CHANGED, FUSED, SPLIT, NEW, REMOVED, MOVED = (
    "same", "changed", "fused", "split", "new", "removed", "moved",
)  # fmt: skip
KINDS = (SAME, CHANGED, FUSED, SPLIT, NEW, REMOVED, MOVED)
"""What a row of the places says of its kernels."""


@dataclass(frozen=True)
class Change:
    """Kernels of one place: positions before and after, and what became of them."""

    kind: str
    before: tuple[int, ...]
    after: tuple[int, ...]


def find_changes(before: UsualStep, after: UsualStep, blocks: Sequence[Block]) -> list[Change]:
    """One change per place in the step; together they cover every kernel of both once."""
    found = [change for block in blocks for change in _in_block(before, after, block)]
    return _with_moves(before, after, found)


def _in_block(before: UsualStep, after: UsualStep, block: Block) -> Iterator[Change]:
    if len(block.pairs) == len(block.before) == len(block.after) == 1:
        ((a, b),) = block.pairs
        yield Change(SAME if before.names[a] == after.names[b] else CHANGED, (a,), (b,))
        return
    paired = {b: [a] for a, b in block.pairs}
    sources = {b: paired.get(b, []) for b in block.after}
    targets = {a: [b] for a, b in block.pairs}
    gone = [a for a in block.before if a not in targets]
    for a in gone:
        into = next(
            (b for b in block.after if _does(after, b, before.categories[a], sources[b], before)),
            None,
        )
        if into is not None:
            sources[into] = sorted([*sources[into], a])
            targets[a] = [into]
    for b in block.after:
        if b in paired or len(sources[b]) > 1:
            continue
        source = next(
            (
                a
                for a, into in targets.items()
                if len(sources[into[0]]) == 1
                and _does(before, a, after.categories[b], [into[0]], after)
            ),
            None,
        )
        if source is not None:
            targets[source] = sorted([*targets[source], b])
            sources[b] = [source]
    yield from _told(block, sources, targets)


def _does(step: UsualStep, at: int, category: str, others: Sequence[int], other: UsualStep) -> bool:
    """Whether a kernel's name shows work of a category that its counterpart does not show."""
    words = _words().get(category, ())
    name = step.names[at].lower()
    if not any(word in name for word in words):
        return False
    return not any(word in other.names[one].lower() for one in others for word in words)


def _told(
    block: Block, sources: dict[int, list[int]], targets: dict[int, list[int]]
) -> Iterator[Change]:
    done: set[int] = set()
    for a in block.before:
        into = targets.get(a, [])
        if not into:
            yield Change(REMOVED, (a,), ())
        elif len(into) > 1:
            yield Change(SPLIT, (a,), tuple(into))
            done.update(into)
    for b in block.after:
        if b in done:
            continue
        mine = sources[b]
        kind = NEW if not mine else CHANGED if len(mine) == 1 else FUSED
        yield Change(kind, tuple(mine), (b,))


def _with_moves(before: UsualStep, after: UsualStep, found: Sequence[Change]) -> list[Change]:
    """A kernel that is gone here and new there was moved."""
    waiting: dict[str, list[int]] = {}
    for number, change in enumerate(found):
        if change.kind == REMOVED:
            waiting.setdefault(before.names[change.before[0]], []).append(number)
    moved: dict[int, Change | None] = {}
    for number, change in enumerate(found):
        origin = waiting.get(after.names[change.after[0]]) if change.kind == NEW else None
        if origin:
            gone = origin.pop(0)
            moved[number] = Change(MOVED, found[gone].before, change.after)
            moved[gone] = None
    told = (moved.get(number, change) for number, change in enumerate(found))
    return [change for change in told if change is not None]


@cache
def _words() -> dict[str, list[str]]:
    text = files("kernelscope.comparison").joinpath("fusions.toml").read_text("utf-8")
    return tomllib.loads(text)
