"""Steps of a run: which kernels belong to one pass of the model.

Methods are tried in order (:data:`METHODS`); each is a function from a trace to steps, or to the
reason why it declines.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from kernelscope import frames
from kernelscope.errors import StepError
from kernelscope.steps.found import (
    DEVICE_GAPS,
    GRAPH_REPLAYS,
    MARKER_KERNEL,
    NO_STEPS,
    NVTX_LABELS,
    Declined,
    Steps,
)
from kernelscope.steps.gaps import by_gaps
from kernelscope.steps.graphs import by_graph
from kernelscope.steps.labels import ENGINES, find_labels
from kernelscope.steps.markers import by_marker
from kernelscope.steps.windows import assign_calls, read_calls
from kernelscope.trace import Trace

__all__ = ["METHODS", "NO_STEPS", "NVTX_LABELS", "Declined", "Steps", "split_steps"]


def by_labels(trace: Trace) -> Steps | Declined:
    """Find steps by an engine's NVTX labels.

    A kernel belongs to the step in whose window its launching API call lies; the window runs
    from the label's start to the next label's start on the same thread.

    Raises:
        ExportError: the file is damaged.
    """
    found = find_labels(trace)
    if found is None:
        engines = ", ".join(engine.name for engine in ENGINES)
        return Declined(NVTX_LABELS, f"no NVTX range is a step label of {engines}")
    engine, frame = found
    launches = assign_calls(read_calls(trace), frame.select("thread", "start_ns", "step"))
    threads = frame["thread"].n_unique()
    evidence = f"{frame.height:,} {engine} step labels on {threads} worker thread(s)"
    return Steps(frame, launches, NVTX_LABELS, evidence)


METHODS: Mapping[str, Callable[[Trace], Steps | Declined]] = {
    NVTX_LABELS: by_labels,
    GRAPH_REPLAYS: by_graph,
    MARKER_KERNEL: by_marker,
    DEVICE_GAPS: by_gaps,
}
"""The ways to find steps, in the order in which they are tried."""

AUTO = "auto"
_HINTS = {
    NVTX_LABELS: "Capture with '-t cuda,nvtx' and --profiler-config.profiler cuda.",
    GRAPH_REPLAYS: "Capture with --cuda-graph-trace=node, or try the method 'marker'.",
    MARKER_KERNEL: "Name a kernel that every step launches, or try the method 'gaps'.",
    DEVICE_GAPS: "Try the method 'graph' or 'marker'.",
}


def split_steps(trace: Trace, *, method: str = AUTO, marker: str | None = None) -> Steps:
    """Find the steps of a run.

    Kernels are tied to API calls by (process, correlation id), and a step is a part of the
    calls of one thread.

    Args:
        trace: the capture.
        method: one of :data:`METHODS`; ``"auto"`` takes the first that finds steps, and
            ``"none"`` makes the whole trace one unit.
        marker: a regular expression for the full name of a kernel that every step launches
            equally often; implies the method ``"marker"``.

    Raises:
        ExportError: the file is damaged.
        StepError: the method asked for finds no steps, or there is no such method.
    """
    _check(method, marker)
    if marker is not None:
        return _found(by_marker(trace, marker))
    if method in METHODS:
        return _found(METHODS[method](trace))
    declined: list[Declined] = []
    for find in METHODS.values() if method == AUTO else ():
        outcome = find(trace)
        if isinstance(outcome, Steps):
            return replace(outcome, declined=tuple(declined))
        declined.append(outcome)
    return _none(trace, declined)


def _check(method: str, marker: str | None) -> None:
    known = [AUTO, *METHODS, NO_STEPS]
    if method not in known:
        raise StepError(
            f"There is no method {method!r} to find steps.", hint=f"Use {', '.join(known)}."
        )
    if marker is not None and method not in {AUTO, MARKER_KERNEL}:
        raise StepError(
            f"A marker kernel is of no use to the method {method!r}.",
            hint=f"Use the method {MARKER_KERNEL!r} with it.",
        )


def _found(outcome: Steps | Declined) -> Steps:
    if isinstance(outcome, Steps):
        return outcome
    raise StepError(
        f"The method {outcome.method!r} finds no steps: {outcome.reason}.",
        hint=_HINTS[outcome.method],
    )


def _none(trace: Trace, declined: list[Declined]) -> Steps:
    """The whole trace as one unit."""
    why = "; ".join(one.reason for one in declined) or "not looked for"
    nothing = frames.empty(frames.STEPS)
    bounds = nothing.select("thread", "start_ns", "step")
    launches = assign_calls(read_calls(trace), bounds)
    return Steps(nothing, launches, NO_STEPS, why, tuple(declined))
