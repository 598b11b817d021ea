"""What the profiler cost, against a step that was timed without it."""

from __future__ import annotations

from collections.abc import Iterator

from kernelscope.findings import Finding
from kernelscope.steps.labels import DECODE
from kernelscope.summary import Summary

_MUCH = 1.05
_OTHER_WORKLOAD = 0.95


def overhead_findings(summary: Summary, unprofiled_ms: float | None) -> Iterator[Finding]:
    """The inflation factor of each rank's decode step: profiled over unprofiled wall time."""
    if unprofiled_ms is None:
        return
    decode = [phase for phase in summary.phases if phase.phase == DECODE and phase.wall_ms]
    if not decode:
        message = "There is no decode step with a wall time to compare with."
        yield Finding("overhead", "warning", message)
    for phase in decode:
        assert phase.wall_ms is not None  # noqa: S101 - chosen above
        factor = phase.wall_ms.median / unprofiled_ms
        where = f" on rank {phase.rank}" if len(summary.ranks) > 1 else ""
        message = (
            f"The profiled decode step{where} takes {phase.wall_ms.median:,.2f} ms (median, start "
            f"to start), {factor:.2f} times the {unprofiled_ms:,.2f} ms without the profiler."
        )
        if factor < _OTHER_WORKLOAD:
            action = "Compare with the same model, batch size and context length."
            yield Finding("overhead", "warning", message, action)
        elif factor > _MUCH:
            action = "Quote shares and kernel times of this trace, not its step time or tokens/s."
            yield Finding("overhead", "warning", message, action)
        else:
            yield Finding("overhead", "ok", message)
