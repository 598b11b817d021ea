"""What is in order, said for every topic, so that silence is never taken for a check."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from kernelscope.findings import Finding, plural
from kernelscope.steps import NO_STEPS
from kernelscope.summary import Summary

_NOTHING_FOUND = {
    "times": "Every kernel ends after its start and starts after its launching call.",
    "names": "Every kernel has a whole name, and a rule or its surroundings say what it is.",
    "diagnostics": "No warning of nsys is in the file; nsys before 2024.2 writes none.",
}
_GRAPHS = {
    "node": "Work of CUDA graphs was recorded kernel by kernel (node)",
    "graph": "CUDA graphs were recorded as a whole (graph)",
    "unknown": "The file does not say how CUDA graphs were recorded",
}


def sound_findings(summary: Summary, told: Collection[str]) -> Iterator[Finding]:
    """One fact per topic, and that nothing is wrong with those not in ``told``."""
    yield from _processes(summary)
    if summary.step_method != NO_STEPS:
        yield _steps(summary)
    yield _graphs(summary)
    yield _launches(summary)
    for topic, message in _NOTHING_FOUND.items():
        if topic not in told and not (topic == "diagnostics" and summary.info.diagnostics):
            yield Finding(topic, "ok", message)


def _processes(summary: Summary) -> Iterator[Finding]:
    for rank in summary.ranks:
        message = (
            f"Rank {rank.rank}: {rank.process or 'a process'} (pid {rank.pid}) on "
            f"{rank.gpu or 'an unnamed GPU'} (device {rank.device}), "
            f"{plural(rank.kernels, 'kernel')}, {rank.kernel_ms:,.1f} ms of kernel time."
        )
        yield Finding("processes", "ok", message)


def _steps(summary: Summary) -> Finding:
    averaged = [
        f"{plural(phase.steps, f'complete {phase.phase} step')}"
        + (f" on rank {phase.rank}" if len(summary.ranks) > 1 else "")
        for phase in summary.phases
    ]
    left = [f"{plural(one.steps, f'{one.phase} step')} ({one.reason})" for one in summary.excluded]
    message = f"By {summary.step_method} ({summary.step_evidence}): {', '.join(averaged) or 'none'}"
    return Finding("steps", "ok", f"{message}{'; left out: ' if left else ''}{'; '.join(left)}.")


def _graphs(summary: Summary) -> Finding:
    launches = [
        f"{phase.phase}: {phase.launch_calls_per_step:,g} launch calls per step, "
        f"{phase.graph_launches_per_step:,g} of them graph launches"
        for phase in summary.phases
    ]
    mode = _GRAPHS[summary.info.graph_trace]
    return Finding("graphs", "ok", f"{'; '.join([mode, *launches])}.")


def _launches(summary: Summary) -> Finding:
    if not summary.outside:
        return Finding("launches", "ok", "Every kernel was launched by a call in one of the steps.")
    reasons = "; ".join(f"{left.kernels:,} {left.reason}" for left in summary.outside)
    return Finding("launches", "ok", f"Kernels in no step, and in no average: {reasons}.")
