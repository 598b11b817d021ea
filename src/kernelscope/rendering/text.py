"""The terminal table, through rich."""

from __future__ import annotations

from collections.abc import Iterator

import polars as pl
from rich import box
from rich.console import Console, RenderableType
from rich.table import Table
from rich.text import Text

from kernelscope.rendering import wording
from kernelscope.rendering.plain import WIDTH, plain
from kernelscope.rules.tables import CUDA_GRAPH
from kernelscope.summary.figures import PhaseSummary
from kernelscope.summary.model import Summary

_BAR_WIDTH = 20
_BAR = "█"
_BAR_PARTS = " ▏▎▍▌▋▊▉"
_MOST_KERNELS = 30
# Of the other columns of the table of kernels, which never give way: category, count, time, share.
_FIGURES_WIDTH = 64
_NARROWEST = 12
_HEADERS = {"short_name": "kernel", "layer_kind": "layer", "each": "each"}
_FACT_PADDING = 2
_PHASE_COLUMNS = {
    "category": ["category"],
    "family": ["family"],
    "kernel": ["short_name", "category"],
    "layer": ["layer_kind", "each"],
}


def render_text(summary: Summary, by: str) -> str:
    """The report as plain text, 100 columns wide."""
    return plain(lambda console: print_summary(summary, by, console))


def print_summary(summary: Summary, by: str, console: Console) -> None:
    """Print the report to a console of any width."""
    for part in _parts(summary, by, console):
        console.print(part)


def _parts(summary: Summary, by: str, console: Console) -> Iterator[RenderableType]:
    yield from _header(summary)
    for phase in summary.phases:
        yield Text()
        yield Text(wording.phase_title(summary, phase), style="bold")
        yield _facts(phase, console)
        for line in wording.parts(summary, phase):
            yield Text(f"  {line}", style="dim")
        yield Text()
        if by == "layer":
            yield Text(f"  {wording.clean(summary.layer_evidence(phase))}")
        if not wording.shown_rows(summary, phase, by).is_empty():
            yield _rows(summary, phase, by, console)
    yield from _across_ranks(summary)
    yield from _left_out(summary)
    yield from _warnings(summary)


def _header(summary: Summary) -> Iterator[Text]:
    info = summary.info
    yield Text(wording.clean(info.path), style="bold", overflow="fold")
    if info.derived:
        yield Text(f"derived from {wording.clean(info.derived.told)}", overflow="fold")
    exporter = f"nsys {info.exporter}" if info.exporter else "nsys of unknown version"
    yield Text(
        f"{wording.gpus(summary)} · {wording.clean(exporter)} · {wording.graph_trace(summary)}"
    )
    yield Text(
        f"steps by {summary.step_method}: {summary.step_evidence} · rules {summary.rules_version}",
    )


def _facts(phase: PhaseSummary, console: Console) -> Table:
    """What, value and meaning; only the meaning gives way in a narrow terminal."""
    rows = [(f"  {what}", value, meaning) for what, value, meaning in wording.facts(phase)]
    used = sum(max(map(len, column)) for column in list(zip(*rows, strict=True))[:2])
    room = console.width - used - 3 * _FACT_PADDING
    table = Table.grid(padding=(0, _FACT_PADDING))
    for style in ("cyan", "", "dim"):
        table.add_column(style=style, no_wrap=True)
    for what, value, meaning in rows:
        table.add_row(what, value, Text(wording.clean(meaning, max(room, 1))))
    return table


def _rows(summary: Summary, phase: PhaseSummary, by: str, console: Console) -> Table:
    rows = wording.shown_rows(summary, phase, by)
    shown = rows.head(_MOST_KERNELS) if by == "kernel" else rows
    bars = console.width >= WIDTH - _BAR_WIDTH and by != "kernel"
    table = _empty_table(by, bars=bars)
    if by == "kernel":
        room = max(console.width - _FIGURES_WIDTH, _NARROWEST)
        short = [wording.shorten(name, room) for name in shown["short_name"]]
        shown = shown.with_columns(pl.Series("short_name", short, pl.String))
    for row in shown.to_dicts():
        table.add_row(*_cells(phase, row, by, bars=bars, ascii_only=_is_ascii(console)))
    if shown.height < rows.height:
        rest = rows.tail(rows.height - shown.height).sum()
        label = f"{rows.height - shown.height} more kernels"
        table.add_row(*_sum_cells(rest.row(0, named=True), by, label))
    table.add_section()
    table.add_row(*_sum_cells(_total(rows), by, "total"))
    return table


def _total(rows: pl.DataFrame) -> dict[str, float]:
    """The sum of the rows. A replay that was not recorded inside is no kernel."""
    is_kernel = pl.col("family") != CUDA_GRAPH if "family" in rows.columns else pl.lit(value=True)
    return rows.select(
        pl.col("kernels_per_step").filter(is_kernel).sum(), pl.col("kernel_ms", "share").sum()
    ).row(0, named=True)


def _empty_table(by: str, *, bars: bool) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1), show_edge=False)
    for number, name in enumerate(_PHASE_COLUMNS[by]):
        header = _HEADERS.get(name, name)
        table.add_column(
            f"  {header}" if number == 0 else header, no_wrap=True, overflow="ellipsis"
        )
    table.add_column("per step", justify="right", no_wrap=True)
    table.add_column("ms/step", justify="right", no_wrap=True)
    table.add_column("of kernel time", justify="right", no_wrap=True)
    if bars:
        table.add_column("", no_wrap=True)
    return table


def _cells(
    phase: PhaseSummary, row: dict[str, object], by: str, *, bars: bool, ascii_only: bool
) -> list[str | Text]:
    named: list[str | Text] = [
        Text(("  " if number == 0 else "") + wording.clean(str(row[name])))
        for number, name in enumerate(_PHASE_COLUMNS[by])
    ]
    kernels, kernel_ms, share = (
        float(row[key])  # type: ignore[arg-type]
        for key in ("kernels_per_step", "kernel_ms", "share")
    )
    is_bound = phase.opaque_share > 0 and row.get("category", row.get("family")) != CUDA_GRAPH
    cells = [
        *named,
        wording.count(kernels),
        wording.milliseconds(kernel_ms),
        wording.share(share, is_lower_bound=is_bound),
    ]
    return [*cells, Text(_bar(share, ascii_only=ascii_only), style="cyan")] if bars else cells


def _sum_cells(row: dict[str, float], by: str, label: str) -> list[str]:
    padding = [""] * (len(_PHASE_COLUMNS[by]) - 1)
    return [
        f"  {label}",
        *padding,
        wording.count(round(row["kernels_per_step"], 6)),
        wording.milliseconds(row["kernel_ms"]),
        wording.share(round(row["share"], 9)),
    ]


def _bar(share: float, *, ascii_only: bool) -> str:
    if ascii_only:
        return "#" * round(share * _BAR_WIDTH)
    whole, rest = divmod(round(share * _BAR_WIDTH * 8), 8)
    return _BAR * whole + (_BAR_PARTS[rest] if rest else "")


def _is_ascii(console: Console) -> bool:
    return console.options.ascii_only


def _across_ranks(summary: Summary) -> Iterator[Text]:
    lines = wording.across_ranks(summary)
    if lines:
        yield Text()
        yield Text("across ranks", style="bold")
    for line in lines:
        yield Text(f"  {wording.clean(line)}")


def _left_out(summary: Summary) -> Iterator[Text]:
    if not (summary.excluded or summary.outside):
        return
    yield Text()
    yield Text("in no average", style="bold")
    for left in (*summary.excluded, *summary.outside):
        yield Text(f"  {wording.left_out(left)}")


def _warnings(summary: Summary) -> Iterator[Text]:
    if summary.warnings or summary.notes:
        yield Text()
    for note in summary.notes:
        yield Text.assemble(("note: ", "bold"), wording.clean(note))
    for warning in summary.warnings:
        yield Text.assemble(("warning: ", "bold yellow"), wording.clean(warning))
