"""What there is to know about a trace before quoting a number from it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

Level = Literal["ok", "warning", "problem"]

TOPICS = (
    "file",
    "integrity",
    "exporter",
    "processes",
    "steps",
    "graphs",
    "launches",
    "window",
    "times",
    "names",
    "diagnostics",
    "overhead",
)
"""What findings are about, in the order in which they are told."""

ROOFLINE = "roofline"
"""The topic of what a roofline rests on; it is about no trace alone."""


@dataclass(frozen=True)
class Finding:
    """One thing that was looked at.

    Attributes:
        topic: one of :data:`TOPICS`, or :data:`ROOFLINE`.
        level: ``"ok"``; ``"warning"``, which limits what a number means; or ``"problem"``, which
            makes numbers of the summary wrong or incomplete.
        message: what was found, with its figures, as a sentence.
        action: what to do next, as a sentence; empty where there is nothing to do.
        evidence: what the message rests on, where it does not say so itself.
    """

    topic: str
    level: Level
    message: str
    action: str = ""
    evidence: str = ""

    @property
    def sentence(self) -> str:
        """Message and action on one line."""
        return f"{self.message} {self.action}".rstrip()


def sentences(findings: Iterable[Finding]) -> tuple[str, ...]:
    """What a reader of the numbers must be told: everything that is not in order."""
    return tuple(found.sentence for found in findings if found.level != "ok")


def plural(number: int, noun: str) -> str:
    """``1 step``, ``2 steps``."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def tell_numbers(steps: Iterable[int]) -> str:
    """``step 3``, ``steps 0 to 4, 13``; nothing for none. The numbers ascend."""
    runs: list[tuple[int, int]] = []
    for step in steps:
        if runs and step == runs[-1][1] + 1:
            runs[-1] = (runs[-1][0], step)
        else:
            runs.append((step, step))
    told = ", ".join(str(a) if a == b else f"{a} to {b}" for a, b in runs)
    is_one = len(runs) == 1 and runs[0][0] == runs[0][1]
    return f"{'step' if is_one else 'steps'} {told}" if runs else ""
