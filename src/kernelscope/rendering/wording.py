"""How numbers and names are worded, the same in every form for people to read."""

from __future__ import annotations

import unicodedata
from typing import Any

import polars as pl

from kernelscope.findings import plural
from kernelscope.summary.figures import Counts, Left, PhaseSummary, Spread
from kernelscope.summary.model import Summary

_SEVERAL = 2
# Anything smaller would be shown as nothing at all.
_SMALLEST_COUNT = 0.05
_SMALLEST_MS = 0.0005
# Digits after the point for values below a limit.
_DIGITS = ((10, 3), (1000, 2), (float("inf"), 1))

_RECORDED = {"node": "each kernel inside recorded", "graph": "recorded as a whole"}


def clean(text: str, width: int | None = None) -> str:
    """Text from a trace, safe for a terminal or a page: one line, no control characters."""
    shown = "".join("\N{REPLACEMENT CHARACTER}" if is_control(c) else c for c in text)
    if width is not None and len(shown) > width:
        return shown[: width - 1] + "…"
    return shown


def shorten(text: str, width: int) -> str:
    """A kernel's name cut in its middle: tiles and variants stand at its end."""
    shown = clean(text)
    if len(shown) <= width:
        return shown
    tail = (width - 1) // 2
    return f"{shown[: width - 1 - tail]}…{shown[len(shown) - tail :]}"


def is_control(character: str) -> bool:
    """Whether a terminal may act on a character instead of showing it."""
    return unicodedata.category(character) in ("Cc", "Cf", "Zl", "Zp", "Cs")


def count(value: float) -> str:
    """``1,023``, or ``15.4`` where a mean is not whole; ``0`` only for none at all."""
    if 0 < value < _SMALLEST_COUNT:
        return "<0.1"
    return f"{value:,.0f}" if value == round(value) else f"{value:,.1f}"


def milliseconds(value: float | None) -> str:
    """Always in ms, to the microsecond at least; a dash for what does not exist."""
    if value is None:
        return "–"
    if 0 < value < _SMALLEST_MS:
        return "<0.001"
    digits = next(digits for limit, digits in _DIGITS if value < limit)
    return f"{value:,.{digits}f}"


def share(value: float, *, is_lower_bound: bool = False) -> str:
    """A percentage; never 0.0 % or 100.0 % unless it is exactly that.

    A lower bound is worded so that it holds whatever the true value: ``> 0 %``, not ``<0.1 %``.
    """
    text = f"{value:.1%}"
    if text == "0.0%" and value > 0:
        text = "<0.1%"
    elif text == "100.0%" and value < 1:
        text = ">99.9%"
    text = text.replace("%", " %")
    if not is_lower_bound or value <= 0 or text.startswith(">"):
        return text
    return "> 0 %" if text.startswith("<") else f"≥ {text}"


def _wall(spread: Spread) -> tuple[str, str, str]:
    """The median, and behind it how far steps differ."""
    meaning = "start to start"
    if spread.min != spread.max:
        meaning = (
            f"median (p10 {milliseconds(spread.p10)}, p90 {milliseconds(spread.p90)}) {meaning}"
        )
    return "wall", f"{milliseconds(spread.median)} ms", meaning


def kernels_per_step(phase: PhaseSummary) -> str:
    """``1,023``, with the range where steps differ."""
    counts = phase.kernels_per_step
    if counts.min == counts.max:
        return count(counts.median)
    return f"{count(counts.median)} ({counts.min:,} to {counts.max:,})"


def shown_rows(summary: Summary, phase: PhaseSummary, by: str) -> pl.DataFrame:
    """The rows of a phase that people are shown; layers by kind, with the time of each layer."""
    if by != "layer":
        return summary.rows(phase, by)
    rows = summary.rows(phase, "layer_kind")
    each = [
        f"{row['layers']} x {milliseconds(row['layer_ms_mean'])} ms" if row["layers"] else ""
        for row in rows.to_dicts()
    ]
    return rows.with_columns(pl.Series("each", each, pl.String))


def left_out(left: Left) -> str:
    """What is in no average, and why: steps of a phase, or kernels outside every step."""
    if left.phase is None:
        return f"{plural(left.kernels, 'kernel')} {left.reason} ({left.kernel_ms:,.2f} ms)"
    kernels = plural(left.kernels, "kernel")
    return f"{plural(left.steps, f'{left.phase} step')}: {left.reason} ({kernels})"


def parts(summary: Summary, phase: PhaseSummary) -> list[str]:
    """The replays of one step, where there are several."""
    return [
        f"replay {row['part']} of the step: {count(row['kernels_per_step'])} kernels, "
        f"{milliseconds(row['kernel_ms'])} ms kernel time in {milliseconds(row['span_ms'])} ms"
        for row in summary.rows(phase, "part").to_dicts()
    ]


def _idle(phase: PhaseSummary) -> str:
    """What the idle part of the span waits for."""
    return (
        f"waits: {milliseconds(phase.idle_inside_replay_ms)} replay, "
        f"{milliseconds(phase.idle_for_cpu_ms)} CPU, "
        f"{milliseconds(phase.idle_between_launches_ms)} launch"
    )


def across_ranks(summary: Summary) -> list[str]:
    """Ranks compared: who waits in collectives, and the slowest rank per category."""
    if len(summary.ranks) < _SEVERAL:
        return []
    collectives = summary.table("collective").to_dicts()
    return [_collectives(row) for row in collectives] + [
        f"{row['phase']} {row['category']}: {milliseconds(row['median_kernel_ms'])} ms median "
        f"over {row['ranks']} ranks, {milliseconds(row['slowest_kernel_ms'])} ms on the "
        f"slowest (rank {row['slowest_rank']})"
        for row in summary.table("rank").to_dicts()
    ]


def _collectives(row: dict[str, Any]) -> str:
    return (
        f"rank {row['rank']} {row['phase']}: {count(row['collectives_per_step'])} collective(s) a "
        f"step, {milliseconds(row['communication_ms'])} ms, of it {milliseconds(row['wait_ms'])} "
        f"ms waiting for the last rank and {milliseconds(row['transfer_ms'])} ms transfer"
    )


def _requests(counts: Counts) -> str:
    if counts.min == counts.max:
        return plural(counts.max, "request")
    return f"{counts.min:,} to {counts.max:,} requests"


def gpus(summary: Summary) -> str:
    """The GPUs that worked."""
    names = sorted({rank.gpu or "unknown GPU" for rank in summary.ranks})
    return ", ".join(clean(name) for name in names) or "unknown GPU"


def graph_trace(summary: Summary) -> str:
    """What the capture recorded of CUDA graphs."""
    mode = summary.info.graph_trace
    return f"CUDA graphs: {_RECORDED.get(mode, 'mode not stated')}"


def phase_title(summary: Summary, phase: PhaseSummary) -> str:
    """``decode: 31 steps``, with the rank where there are several."""
    if phase.phase == "trace":
        title = "whole trace, not split into steps"
    else:
        title = f"{phase.phase}: {plural(phase.steps, 'step')}"
        if phase.requests_per_step is not None:
            title += f" of {_requests(phase.requests_per_step)}"
    if phase.incomplete_steps:
        title += f", {phase.incomplete_steps} incomplete left out"
    if len(summary.ranks) > 1:
        rank = summary.ranks[phase.rank]
        title = f"rank {rank.rank} (pid {rank.pid}, device {rank.device}) {title}"
    return title


def facts(phase: PhaseSummary) -> list[tuple[str, str, str]]:
    """(what, value, what it means) for the figures of one phase."""
    rows = [
        ("kernels per step", kernels_per_step(phase), ""),
        ("span", f"{milliseconds(phase.span_ms)} ms", "first kernel start to last kernel end"),
        ("kernel time", f"{milliseconds(phase.kernel_ms)} ms", "sum over kernels"),
        ("busy", f"{milliseconds(phase.busy_ms)} ms", "at least one kernel running"),
        ("idle", f"{milliseconds(phase.idle_ms)} ms", _idle(phase)),
        (
            "launch calls",
            count(phase.launch_calls_per_step),
            f"{count(phase.graph_launches_per_step)} of them graph launches",
        ),
    ]
    if phase.wall_ms is not None:
        rows.insert(1, _wall(phase.wall_ms))
    if phase.overlap_ms >= _SMALLEST_MS:
        overlap = f"{milliseconds(phase.overlap_ms)} ms"
        rows.append(("overlap", overlap, "kernel time beside other kernels"))
    if phase.tokens_per_s is not None:
        rows.append(("tokens/s", f"{phase.tokens_per_s:,.1f}", "generated tokens over wall"))
    if phase.prompt_tokens_per_s is not None:
        rows.append(
            ("prompt tokens/s", f"{phase.prompt_tokens_per_s:,.0f}", "prompt tokens over wall")
        )
    if phase.largest_kernel is not None:
        largest = phase.largest_kernel
        rows.append(
            (
                "largest kernel",
                f"{milliseconds(largest.duration_ms)} ms",
                f"{clean(largest.short_name)} ({largest.category})",
            )
        )
    memory = phase.memory
    if memory.copies_per_step or memory.sets_per_step:
        operations = f"{count(memory.copies_per_step)} copies, {count(memory.sets_per_step)} sets"
        memory_ms = milliseconds(memory.copy_ms + memory.set_ms)
        rows.append(("memory", f"{memory_ms} ms", f"{operations}; in no share"))
    return rows
