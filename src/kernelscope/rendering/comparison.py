"""A comparison in every form."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Literal

from rich import box
from rich.console import Console, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from kernelscope.comparison import Comparison, PhaseComparison
from kernelscope.findings import plural
from kernelscope.rendering import wording
from kernelscope.rendering.data import to_json
from kernelscope.rendering.markdown import escape, table_lines
from kernelscope.rendering.plain import WIDTH, plain
from kernelscope.writing import check_target, write_file

_MOST_PLACES = 15
_NARROWEST = 16
_GAP = 2
_LEAST_MS = 0.0005
NOTHING = "no difference: the same kernels with the same times in every phase"

_PART_HEADINGS = ("part of the step", "before ms", "after ms", "change ms", "95 % interval ms")
_PLACE_HEADINGS = (
    "what changed",
    "places",
    "before ms",
    "after ms",
    "change ms",
    "change",
    "kernel",
)
_HIDDEN_WHEN_NARROW = ("places", "after ms")

Rows = list[list[str]]


def render_text(comparison: Comparison) -> str:
    """A plain report, 100 columns wide."""
    return plain(lambda console: print_comparison(comparison, console))


def print_comparison(comparison: Comparison, console: Console) -> None:
    """Print the report to a console of any width; names give way, figures never."""
    for part in _text(comparison, console.width):
        console.print(part)


def _text(comparison: Comparison, width: int) -> Iterator[RenderableType]:
    for what, path in _traces(comparison):
        yield Text(f"{what:<7}{wording.clean(path)}", style="bold", overflow="fold")
    if comparison.is_empty:
        yield Text(f"\n{NOTHING}")
        return
    for phase in comparison.phases:
        yield Text()
        yield Text(_title(comparison, phase), style="bold")
        for sentence in _verdict(phase):
            yield Text(f"  {sentence}")
        yield _table(_PART_HEADINGS, _part_rows(comparison, phase), width)
        rows, left = _place_rows(comparison, phase)
        if rows:
            yield Text()
            yield _place_table(rows, width)
        for line in _remarks(phase, left):
            yield Padding(Text(wording.clean(line)), (0, 0, 0, 2))
    if comparison.notes:
        yield Text("\nnot comparable", style="bold yellow")
        for note in comparison.notes:
            yield Padding(Text(wording.clean(note)), (0, 0, 0, 2))


def render_markdown(comparison: Comparison) -> str:
    """The same for a pull request."""
    return "\n".join(_markdown(comparison)) + "\n"


def _markdown(comparison: Comparison) -> Iterator[str]:
    yield from (f"- {what}: {escape(path)}" for what, path in _traces(comparison))
    if comparison.is_empty:
        yield from ["", f"{NOTHING.capitalize()}."]
        return
    for phase in comparison.phases:
        yield from [
            "",
            f"### {escape(_title(comparison, phase))}",
            "",
            "; ".join(_verdict(phase)),
            "",
        ]
        yield from table_lines(_PART_HEADINGS, "lrrrr", _part_rows(comparison, phase))
        rows, left = _place_rows(comparison, phase)
        if rows:
            yield ""
            yield from table_lines(_PLACE_HEADINGS, "lrrrrrl", rows)
        for line in _remarks(phase, left):
            yield from ["", escape(line)]
    if comparison.notes:
        yield from ["", "### Not comparable", "", *(f"- {escape(one)}" for one in comparison.notes)]


def _traces(comparison: Comparison) -> Iterator[tuple[str, str]]:
    yield "before", comparison.before["trace"]
    yield "after", comparison.after["trace"]


def _title(comparison: Comparison, phase: PhaseComparison) -> str:
    several = len({one.rank for one in comparison.phases}) > 1
    rank = f"rank {phase.rank} " if several else ""
    before, after = phase.steps
    return f"{rank}{phase.phase}: {plural(before, 'step')} before, {after:,} after"


def _verdict(phase: PhaseComparison) -> tuple[str, str]:
    """The median step before and after, the shift, and whether that is more than noise."""
    shift = phase.shift
    times = f"{wording.milliseconds(phase.before_ms)} → {wording.milliseconds(phase.after_ms)} ms"
    change = f"{signed_ms(shift.ms)} ms{_percent(phase.relative)}"
    if shift.low_ms is None or shift.high_ms is None:
        told = "too few steps to tell from noise"
    else:
        interval = f"95 % interval {signed_ms(shift.low_ms)} to {signed_ms(shift.high_ms)} ms"
        meaning = "significant" if shift.is_significant else "not significant"
        told = f"{interval}, {meaning}"
    return f"{phase.measure} per step (median) {times}, {change}", told


def _part_rows(comparison: Comparison, phase: PhaseComparison) -> Rows:
    rows = [_part_row(row) for row in comparison.rows(comparison.parts, phase).to_dicts()]
    before, after = phase.mean_before_ms, phase.mean_after_ms
    total = [f"step ({phase.measure}, mean)", *_times(before, after), ""]
    return [*rows, total]


def _part_row(row: Mapping[str, Any]) -> list[str]:
    interval = "–"
    if row["low_ms"] is not None:
        interval = f"{signed_ms(row['low_ms'])} to {signed_ms(row['high_ms'])}"
        interval += "" if row["significant"] else " (noise)"
    return [row["part"], *_times(row["before_ms"], row["after_ms"]), interval]


def _place_rows(comparison: Comparison, phase: PhaseComparison) -> tuple[Rows, int]:
    """The rows that weigh most, and how many are left out."""
    found = comparison.rows(comparison.changed(), phase).to_dicts()
    told = [row for row in found if row["change"] != "same" or abs(row["delta_ms"]) >= _LEAST_MS]
    rows = []
    for row in told[:_MOST_PLACES]:
        is_ratio = row["before_ms"] and row["after_ms"]
        percent = _percent(row["delta_ms"] / row["before_ms"]).strip(" ()") if is_ratio else ""
        times = _times(row["before_ms"], row["after_ms"])
        rows.append([_place(row), f"{row['places']:,}", *times, percent, _kernels(row)])
    return rows, len(told) - len(rows)


def _place(row: Mapping[str, Any]) -> str:
    """``changed gate_up gemm in attention + mlp``; a kernel that stayed has no first word."""
    word = "" if row["change"] == "same" else f"{row['change']} "
    arrow = " → 1 kernel" if row["change"] == "fused" else ""
    return f"{word}{row['role']}{arrow} in {row['layer_kind']}"


def _kernels(row: Mapping[str, Any]) -> str:
    """The kernel, or what it was and what it is now."""
    before, after = row["kernel_before"], row["kernel_after"]
    return before or after if before == after or not (before and after) else f"{before} → {after}"


def _remarks(phase: PhaseComparison, left: int) -> Iterator[str]:
    if left:
        yield f"... and {left:,} more with smaller changes; JSON has all, with names of kernels."
    if phase.declined:
        yield f"Kernels were not aligned: {phase.declined}."
    elif phase.usual != phase.steps:
        (a, b), (of_a, of_b) = phase.usual, phase.steps
        yield (
            f"Kernels are those of the usual step: {a} of {of_a} steps before, {b} of {of_b} after."
        )


def _times(before_ms: float, after_ms: float) -> list[str]:
    return [_ms(before_ms), _ms(after_ms), signed_ms(after_ms - before_ms)]


def _ms(value: float) -> str:
    return f"-{wording.milliseconds(-value)}" if value < 0 else wording.milliseconds(value)


def signed_ms(value: float) -> str:
    """``+0.123``, ``-0.050``, or ``0`` for what rounds to nothing."""
    if abs(value) < _LEAST_MS:
        return "0"
    return f"{'+' if value > 0 else '-'}{wording.milliseconds(abs(value))}"


def _percent(relative: float | None) -> str:
    return "" if relative is None else f" ({relative:+.1%})".replace("%", " %")


def _place_table(rows: Rows, width: int) -> Table:
    """Without names of kernels; a narrow one has fewer figures."""
    left_out = {"kernel", *(_HIDDEN_WHEN_NARROW if width < WIDTH else ())}
    shown = [at for at, heading in enumerate(_PLACE_HEADINGS) if heading not in left_out]
    headings = [_PLACE_HEADINGS[at] for at in shown]
    return _table(headings, [[row[at] for at in shown] for row in rows], width)


def _table(headings: Sequence[str], rows: Rows, width: int) -> Table:
    used = sum(
        max(len(headings[at]), *(len(row[at]) for row in rows)) + _GAP
        for at in range(1, len(headings))
    )
    room = max(width - used - _GAP, _NARROWEST)
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0), show_edge=False)
    for at, heading in enumerate(headings):
        justify: Literal["left", "right"] = "right" if at else "left"
        table.add_column(heading if at else f"  {heading}", no_wrap=True, justify=justify)
    for row in rows:
        table.add_row(Text(f"  {wording.shorten(row[0], room)}"), *row[1:])
    return table


COMPARISON_FORMATS: Mapping[str, Callable[[Comparison], str]] = {
    "text": render_text,
    "json": lambda comparison: to_json(comparison.to_dict()),
    "markdown": render_markdown,
}
"""Format name -> function of a comparison."""


def write_comparison(
    comparison: Comparison,
    path: str | os.PathLike[str],
    format: str = "json",
    *,
    overwrite: bool = False,
) -> None:
    """Write a comparison to a file, whole or not at all.

    Args:
        comparison: what to write.
        path: the file.
        format: ``"text"``, ``"json"`` or ``"markdown"``.
        overwrite: whether a file of that name is replaced.

    Raises:
        KeyError: there is no such format.
        OutputError: the file exists and ``overwrite`` is false, it is one of the traces, or it
            cannot be written.
    """
    for side in (comparison.before, comparison.after):
        check_target(path, overwrite=overwrite, trace=side["trace"])
    write_file(path, COMPARISON_FORMATS[format](comparison), overwrite=overwrite)
