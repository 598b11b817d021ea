"""A roofline in every form."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Literal

from rich import box
from rich.console import Console, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from kernelscope.ceilings import PhaseRoofline, Roofline
from kernelscope.ceilings.gpus import Peaks
from kernelscope.findings import plural
from kernelscope.rendering import wording
from kernelscope.rendering.data import to_csv, to_json
from kernelscope.rendering.markdown import escape, table_lines
from kernelscope.rendering.plain import WIDTH, plain

_GIGA, _TERA = 1e9, 1e12
_HEADINGS = (
    "work", "calls", "GB/step", "ms/step", "TB/s", "TFLOP/s", "of peak", "bound", "floor ms",
)  # fmt: skip
_TEXT = ("work", "bound")
_HIDDEN_WHEN_NARROW = ("calls", "TFLOP/s")
_NARROWEST = 12
_GAP = 2
_MOST_CATEGORIES = 2
_LEAST_GAIN = 0.02
"""Of the step; a category that weighs less is not worth a sentence."""
_MANY = 1000

Row = dict[str, str]


def render_text(roofline: Roofline) -> str:
    """A plain report, 100 columns wide."""
    return plain(lambda console: print_roofline(roofline, console))


def print_roofline(roofline: Roofline, console: Console) -> None:
    """Print the report to a console of any width; a narrow one has fewer columns."""
    for part in _parts(roofline, console):
        console.print(part)


def _parts(roofline: Roofline, console: Console) -> Iterator[RenderableType]:
    yield Text(wording.clean(roofline.provenance["trace"]), style="bold", overflow="fold")
    for line in _header(roofline):
        yield Text(wording.clean(line))
    for phase in roofline.phases:
        yield Text()
        yield Text(_title(roofline, phase), style="bold")
        if not phase.steps:
            yield Text(f"  no roofline: {wording.clean(phase.declined)}.")
            continue
        yield _table(roofline, phase, console)
        yield Text()
        for what, value, meaning in _facts(phase):
            yield Text.assemble("  ", (f"{what:<12}", "cyan"), f"{value:>10}  ", (meaning, "dim"))
        yield Text()
        for sentence in _what_if(phase):
            yield Padding(Text(sentence), (0, 0, 0, 2))
    yield Text()
    yield Text("assumed", style="bold")
    for assumption in roofline.assumptions:
        yield Padding(Text(wording.clean(assumption)), (0, 0, 0, 2))
    if roofline.warnings:
        yield Text()
    for warning in roofline.warnings:
        yield Text.assemble(("warning: ", "bold yellow"), wording.clean(warning))


def render_markdown(roofline: Roofline) -> str:
    """Headings, a table and figures per phase, and what they assume."""
    return "\n".join(_markdown(roofline)) + "\n"


def _markdown(roofline: Roofline) -> Iterator[str]:
    yield from [f"# {escape(roofline.provenance['trace'])}", ""]
    yield from (f"- {escape(line)}" for line in _header(roofline))
    for phase in roofline.phases:
        yield from ["", f"## {escape(_title(roofline, phase))}", ""]
        if not phase.steps:
            yield f"No roofline: {escape(phase.declined)}."
            continue
        align = "".join("l" if heading in _TEXT else "r" for heading in _HEADINGS)
        rows = [list(row.values()) for row in (*_work_rows(roofline, phase), *_sum_rows(phase))]
        yield from table_lines(_HEADINGS, align, rows)
        yield ""
        yield from table_lines(("figure", "value", "meaning"), "lrl", _facts(phase))
        yield ""
        yield from (f"- {escape(sentence)}" for sentence in _what_if(phase))
    for heading, lines in (("Assumptions", roofline.assumptions), ("Warnings", roofline.warnings)):
        if lines:
            yield from ["", f"## {heading}", "", *(f"- {escape(line)}" for line in lines)]


def _header(roofline: Roofline) -> Iterator[str]:
    yield from dict.fromkeys(_spelled(peaks) for peaks in roofline.peaks.values())
    yield (
        f"{roofline.provenance['model_config']} · {roofline.weights / _GIGA:,.2f} G weights "
        f"multiplied, in {roofline.quantization} · tensor parallel {roofline.tensor_parallel}"
    )


def _spelled(peaks: Peaks) -> str:
    return (
        f"{peaks.gpu} · {peaks.bandwidth_bytes_per_s / _TERA:,.2f} TB/s · "
        f"{peaks.compute('bf16') / _TERA:,.0f} TFLOP/s in 16 bits"
    )


def _title(roofline: Roofline, phase: PhaseRoofline) -> str:
    title = phase.phase
    if len(roofline.peaks) > 1:
        title = f"rank {phase.rank} {title}"
    if not phase.steps:
        return title
    title += (
        f": {plural(phase.steps, 'step')} of {_counted(phase.tokens_per_step, 'token')} in "
        f"{_counted(phase.requests_per_step, 'request')}"
    )
    if phase.context_len is not None:
        title += f", {wording.count(round(phase.context_len))} tokens of context"
    return title


def _counted(mean: float, noun: str) -> str:
    """``1 token``, ``7.9 tokens``."""
    return plural(int(mean), noun) if mean == 1 else f"{wording.count(mean)} {noun}s"


def _table(roofline: Roofline, phase: PhaseRoofline, console: Console) -> Table:
    """Figures are never cut: the names give way."""
    hidden = _HIDDEN_WHEN_NARROW if console.width < WIDTH else ()
    headings = [heading for heading in _HEADINGS if heading not in hidden]
    parts = [list(rows) for rows in (_work_rows(roofline, phase), _sum_rows(phase))]
    rows = [row for part in parts for row in part]
    used = sum(max(map(len, (one, *(row[one] for row in rows)))) + _GAP for one in headings[1:])
    room = max(console.width - used - _GAP, _NARROWEST)
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0), show_edge=False)
    for heading in headings:
        shown = f"  {heading}" if heading == _HEADINGS[0] else heading
        justify: Literal["left", "right"] = "left" if heading in _TEXT else "right"
        table.add_column(shown, no_wrap=True, justify=justify)
    for part in parts:
        for row in part:
            cells = [row[heading] for heading in headings]
            table.add_row(f"  {wording.shorten(cells[0], room)}", *cells[1:])
        table.add_section()
    return table


def _work_rows(roofline: Roofline, phase: PhaseRoofline) -> Iterator[Row]:
    for row in roofline.rows(phase).to_dicts():
        yield _row(row)


def _row(row: Mapping[str, Any]) -> Row:
    return dict(
        zip(
            _HEADINGS,
            (
                str(row["name"]),
                f"{row['calls']:,}" if row["calls"] else "",
                _scaled(row["bytes"], _GIGA, 3),
                wording.milliseconds(row["kernel_ms"]),
                _scaled(row["bytes_per_s"], _TERA, 2),
                _scaled(row["flops_per_s"], _TERA, 1),
                _of_peak(row["of_peak"]),
                row["bound"] or "",
                wording.milliseconds(row["floor_ms"]),
            ),
            strict=True,
        )
    )


def _sum_rows(phase: PhaseRoofline) -> Iterator[Row]:
    nothing = dict.fromkeys(_HEADINGS, "")
    yield nothing | {
        "work": "all GEMMs",
        "GB/step": _scaled(phase.gemm_bytes, _GIGA, 3),
        "ms/step": wording.milliseconds(phase.gemm_ms),
        "TB/s": _scaled(phase.gemm_bytes_per_s, _TERA, 2),
        "of peak": _of_peak(phase.gemm_of_peak),
        "floor ms": wording.milliseconds(phase.gemm_floor_ms),
    }
    yield nothing | {"work": "other kernels", "ms/step": wording.milliseconds(phase.other_ms)}
    yield nothing | {
        "work": "all kernels",
        "ms/step": wording.milliseconds(phase.kernel_ms),
        "floor ms": wording.milliseconds(phase.floor_ms),
    }


def _scaled(value: float | None, unit: float, digits: int) -> str:
    """A figure in its unit; nothing is shown as zero that is not."""
    if value is None:
        return "–"
    scaled = value / unit
    least = 10**-digits
    if 0 < scaled < least / 2:
        return f"<{least:.{digits}f}"
    return f"{scaled:,.{digits}f}"


def _of_peak(value: float | None) -> str:
    """A share; above 100 % it is marked, because it cannot be (a warning says why)."""
    if value is None:
        return "–"
    return f"{wording.share(value)}{' !' if value > 1 else ''}"


def _facts(phase: PhaseRoofline) -> Iterator[tuple[str, str, str]]:
    """(what, value, what it means)."""
    floor = "each piece of work at its ceiling, one by one"
    yield "floor", f"{wording.milliseconds(phase.floor_ms)} ms", floor
    for what, value, ratio in (
        ("kernel time", phase.kernel_ms, phase.kernel_over_floor),
        ("wall", phase.wall_ms, phase.wall_over_floor),
    ):
        if value is not None and ratio is not None:
            yield what, f"{wording.milliseconds(value)} ms", f"{ratio:,.2f} times the floor"
    if phase.tokens_per_s_at_floor is not None:
        yield "tokens/s", wording.count(_rounded(phase.tokens_per_s_at_floor)), "at the floor"


def _rounded(value: float) -> float:
    """To a tenth, or to whole numbers where a tenth says nothing."""
    return round(value) if value >= _MANY else round(value, 1)


def _what_if(phase: PhaseRoofline) -> Iterator[str]:
    """The faster multiplies, and the categories that weigh most."""
    first, *categories = phase.what_if
    worth = [one for one in categories if one.step_ms < (1 - _LEAST_GAIN) * one.now_ms]
    yield from (one.sentence for one in (first, *worth[:_MOST_CATEGORIES]))


ROOFLINE_FORMATS: Mapping[str, Callable[[Roofline], str]] = {
    "text": render_text,
    "json": lambda roofline: to_json(roofline.to_dict()),
    "csv": lambda roofline: to_csv(roofline.table),
    "markdown": render_markdown,
}
"""Format name -> function of a roofline."""
