"""Where does a decode step go? Kernels, steps and shares from Nsight Systems exports of vLLM.

::

    import kernelscope

    trace = kernelscope.read_export("trace.sqlite")
    summary = kernelscope.summarize(trace)      # also takes a path
    summary.phase("decode").kernels_per_step
    summary.table("category")                   # a polars DataFrame

Everything named in ``__all__`` is public and documented; everything else may change.
"""

from __future__ import annotations

from importlib import import_module
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kernelscope.analysis import classify
    from kernelscope.ceilings import PhaseRoofline, Roofline, RunFacts, roofline
    from kernelscope.classification import classify_names
    from kernelscope.comparison import Comparison, PhaseComparison, Shift, compare
    from kernelscope.diagnosis import Diagnosis, diagnose
    from kernelscope.findings import Finding
    from kernelscope.nsys import read_export
    from kernelscope.records import Recorded, history, record
    from kernelscope.rendering import render, write_summary
    from kernelscope.rendering.comparison import write_comparison
    from kernelscope.rules import Rule, RuleTable, load_rules
    from kernelscope.runs import RunAnalysis, analyze_run
    from kernelscope.steps import Steps, split_steps
    from kernelscope.summary import PhaseSummary, Summary, summarize
    from kernelscope.timeline import Timeline, write_timeline
    from kernelscope.trace import Trace
    from kernelscope.trimming import Trimmed, trim

__version__ = version("kernelscope")

__all__ = [
    "Comparison",
    "Diagnosis",
    "Finding",
    "PhaseComparison",
    "PhaseRoofline",
    "PhaseSummary",
    "Recorded",
    "Roofline",
    "Rule",
    "RuleTable",
    "RunAnalysis",
    "RunFacts",
    "Shift",
    "Steps",
    "Summary",
    "Timeline",
    "Trace",
    "Trimmed",
    "__version__",
    "analyze_run",
    "classify",
    "classify_names",
    "compare",
    "diagnose",
    "errors",
    "history",
    "load_rules",
    "read_export",
    "record",
    "render",
    "roofline",
    "split_steps",
    "summarize",
    "trim",
    "write_comparison",
    "write_summary",
    "write_timeline",
]

# Loaded when first used, so that the command line answers --help without importing polars.
_HOME = {
    "Comparison": "kernelscope.comparison",
    "PhaseComparison": "kernelscope.comparison",
    "Shift": "kernelscope.comparison",
    "compare": "kernelscope.comparison",
    "write_comparison": "kernelscope.rendering.comparison",
    "Diagnosis": "kernelscope.diagnosis",
    "Finding": "kernelscope.findings",
    "PhaseRoofline": "kernelscope.ceilings",
    "PhaseSummary": "kernelscope.summary",
    "Recorded": "kernelscope.records",
    "Roofline": "kernelscope.ceilings",
    "Rule": "kernelscope.rules",
    "RuleTable": "kernelscope.rules",
    "RunAnalysis": "kernelscope.runs",
    "RunFacts": "kernelscope.ceilings",
    "Steps": "kernelscope.steps",
    "Summary": "kernelscope.summary",
    "Timeline": "kernelscope.timeline",
    "Trace": "kernelscope.trace",
    "Trimmed": "kernelscope.trimming",
    "analyze_run": "kernelscope.runs",
    "classify": "kernelscope.analysis",
    "classify_names": "kernelscope.classification",
    "diagnose": "kernelscope.diagnosis",
    "history": "kernelscope.records",
    "load_rules": "kernelscope.rules",
    "read_export": "kernelscope.nsys",
    "record": "kernelscope.records",
    "render": "kernelscope.rendering",
    "roofline": "kernelscope.ceilings",
    "split_steps": "kernelscope.steps",
    "summarize": "kernelscope.summary",
    "trim": "kernelscope.trimming",
    "write_summary": "kernelscope.rendering",
    "write_timeline": "kernelscope.timeline",
}


def __getattr__(name: str) -> Any:
    if name == "errors":
        return import_module("kernelscope.errors")
    if name in _HOME:
        return getattr(import_module(_HOME[name]), name)
    raise AttributeError(f"module 'kernelscope' has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__
