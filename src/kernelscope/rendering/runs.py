"""The phases of a run side by side, for a terminal."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from rich.console import Console, RenderableType
from rich.table import Table
from rich.text import Text

from kernelscope.rendering import wording
from kernelscope.rendering.plain import WIDTH, plain
from kernelscope.runs.model import RunAnalysis

_MISSING = "–"


def _known(form: Callable[[float], str]) -> Callable[[float | None], str]:
    return lambda value: _MISSING if value is None else form(value)


# Heading, column of the table of phases, form, and whether a narrow terminal does without.
_COLUMNS: tuple[tuple[str, str, Callable[[Any], str], bool], ...] = (
    ("mode", "mode", wording.clean, False),
    ("batch", "batch", str, False),
    ("phase", "phase", wording.clean, False),
    ("steps", "steps", str, True),
    ("kernels", "kernels_per_step", _known(wording.count), False),
    ("GEMMs", "gemm_count", wording.count, True),
    ("share", "gemm_share", wording.share, False),
    ("step ms", "wall_ms", wording.milliseconds, False),
    ("idle ms", "idle_ms", wording.milliseconds, True),
    ("calls", "launch_calls", wording.count, False),
    ("no nsys ms", "unprofiled_ms", wording.milliseconds, False),
    ("added", "inflation", _known(wording.share), True),
)
_TEXTS = ("mode", "phase")
_LEGEND = (
    "Each number is per step. share: part of the kernel time that is in GEMMs. step: median, start "
    "to start. calls: CUDA calls that launch work. no nsys: measured without the profiler, for "
    "prefill until the first token."
)
_ADDED = " added: how much longer the profiler makes a decode step."


def render_text(analysis: RunAnalysis, width: int = WIDTH) -> str:
    """A row per mode, batch and phase, what there is to know, and where the tables are."""
    return plain(lambda console: _print(analysis, console), min(width, WIDTH))


def _print(analysis: RunAnalysis, console: Console) -> None:
    for part in _parts(analysis, is_narrow=console.width < WIDTH):
        console.print(part)


def _parts(analysis: RunAnalysis, *, is_narrow: bool) -> Iterator[RenderableType]:
    yield Text(wording.clean(str(analysis.run.folder)), overflow="fold")
    for gpu in analysis.run.facts.get("host", {}).get("gpus", [])[:1]:
        yield Text(
            wording.clean(f"{gpu.get('name', '?')}, driver {gpu.get('driver_version', '?')}")
        )
    yield Text()
    rows = analysis.tables["phase_summary"].to_dicts()
    yield _table([row for row in rows if row["rank"] == 0], is_narrow=is_narrow)
    if len({row["rank"] for row in rows}) > 1:
        yield Text("Rank 0 is shown; phase_summary.csv has every rank.")
    yield Text()
    yield Text(_LEGEND if is_narrow else _LEGEND + _ADDED)
    for found in analysis.findings:
        if found.level != "ok":
            yield Text(f"{found.level}: {wording.clean(found.sentence)}")
    told = f"{len(analysis.tables)} tables in {analysis.run.folder / 'analysis'}"
    yield Text(wording.clean(told), overflow="fold")


def _table(rows: list[dict[str, Any]], *, is_narrow: bool) -> Table:
    columns = [column for column in _COLUMNS if not (is_narrow and column[3])]
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for heading, name, *_ in columns:
        table.add_column(heading, no_wrap=True, justify="left" if name in _TEXTS else "right")
    for row in rows:
        table.add_row(*(Text(form(row[name])) for _, name, form, _ in columns))
    return table
