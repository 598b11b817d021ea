"""What a comparison needs of one trace; the trace itself is let go."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass

from kernelscope.analysis import analyze
from kernelscope.comparison.usual import UsualStep, find_usual_steps
from kernelscope.layers.tables import PhaseKey
from kernelscope.nsys import read_export
from kernelscope.rules import RuleTable
from kernelscope.step_table import Choice
from kernelscope.steps import Steps
from kernelscope.summary import Summary, summarize_analysis
from kernelscope.trace import Trace


@dataclass(frozen=True, eq=False)
class Side:
    """One of two traces: its summary, and the usual step of each rank and phase."""

    summary: Summary
    usual: Mapping[PhaseKey, UsualStep]


def read_side(
    trace: Trace | str | os.PathLike[str],
    *,
    steps: Steps | None = None,
    rules: RuleTable | None = None,
    context: bool = True,
    inductor_cache: str | os.PathLike[str] | None = None,
    choice: Choice | None = None,
) -> Side:
    """Take from a trace what is compared; see :func:`kernelscope.summarize` for the arguments.

    Raises:
        SourcesNotFound: ``inductor_cache`` holds no generated kernels.
        ExportError: the path cannot be read as an nsys export, or the file is damaged.
    """
    trace = trace if isinstance(trace, Trace) else read_export(trace)
    found = analyze(trace, steps=steps, rules=rules, context=context, inductor_cache=inductor_cache)
    summary = summarize_analysis(trace, found, choice=choice)
    return Side(summary, find_usual_steps(trace, found, summary.table("step")))
