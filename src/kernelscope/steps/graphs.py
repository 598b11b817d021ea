"""Steps by recurring CUDA-graph replays.

A graph whose replays recur is the body of a decode step. Graphs for several batch sizes may be
bodies of one run: they have about as many kernels. Where a step replays several graphs in a
fixed order (a target and its drafts, or the pieces between attention kernels), the body is one
of them and the others are part of its step. Graphs that do not recur, such as the pieces of a
prefill, and graphs much smaller than the body, are in no step.
"""

from __future__ import annotations

from kernelscope.steps.cycles import Cycle, find_cycle
from kernelscope.steps.found import GRAPH_REPLAYS, Declined, Steps
from kernelscope.steps.inferred import count, steps_of
from kernelscope.steps.launches import Launches
from kernelscope.steps.recurrence import LEAST_STEPS
from kernelscope.steps.replays import read_replays
from kernelscope.steps.windows import CallIndex
from kernelscope.trace import Trace


def by_graph(trace: Trace) -> Steps | Declined:
    """Find decode steps by CUDA-graph replays that recur.

    Raises:
        ExportError: the file is damaged.
    """
    launches = Launches.of(trace)
    if not launches.threads:
        return Declined(GRAPH_REPLAYS, "no launching API call was recorded")
    replays = read_replays(trace, CallIndex.of(launches.calls))
    if replays.is_empty():
        return Declined(GRAPH_REPLAYS, "no kernel says that it is part of a CUDA graph")
    found = [cycle for thread in launches.threads if (cycle := find_cycle(thread, replays))]
    if not found:
        return Declined(
            GRAPH_REPLAYS,
            f"none of {replays['graph'].n_unique()} CUDA graphs is replayed {LEAST_STEPS} times"
            " at equal distance",
        )
    return steps_of(launches, [cycle.pieces for cycle in found], GRAPH_REPLAYS, _evidence(found))


def _evidence(found: list[Cycle]) -> str:
    """How many steps, what they replay and on how many threads."""
    steps = sum(cycle.bodies.size for cycle in found)
    graphs = len({graph for cycle in found for graph in cycle.graphs.tolist()})
    length, kernels = found[0].length, found[0].kernels
    each = count(length, "CUDA-graph replay") + " per step"
    if kernels:
        each += f" with {kernels:,} kernels"
    known = f"known by {count(graphs, 'graph')}, on {count(len(found), 'thread')}"
    return f"{count(steps, 'recurring step')} of {each}, {known}"
