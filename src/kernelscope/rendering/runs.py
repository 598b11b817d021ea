"""The phases of a run side by side, for a terminal."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Iterator
from typing import Any

from kernelscope.rendering import wording
from kernelscope.runs.model import RunAnalysis

_WIDTH = 100
_GAP = "  "
_MISSING = "-"


def _number(digits: int) -> Callable[[Any], str]:
    return lambda value: _MISSING if value is None else f"{value:,.{digits}f}"


def _percent(value: float | None) -> str:
    return _MISSING if value is None else f"{value:.1%}"


# Heading, column, form, and whether a narrow terminal does without.
_COLUMNS: tuple[tuple[str, str, Callable[[Any], str], bool], ...] = (
    ("mode", "mode", str, False),
    ("batch", "batch", str, False),
    ("phase", "phase", str, False),
    ("steps", "steps", str, True),
    ("kernels", "kernels_per_step", _number(0), False),
    ("GEMMs", "gemm_count", _number(0), True),
    ("share", "gemm_share", _percent, False),
    ("step ms", "wall_ms", _number(2), False),
    ("idle ms", "idle_ms", _number(2), True),
    ("calls", "launch_calls", _number(0), False),
    ("unprofiled", "unprofiled_ms", _number(2), False),
    ("added", "inflation", _percent, True),
)
_TEXTS = ("mode", "phase")


def render_text(analysis: RunAnalysis, width: int = _WIDTH) -> str:
    """A row per mode, batch and phase, what there is to know, and where the tables are."""
    return "".join(f"{line.rstrip()}\n" for line in _lines(analysis, min(width, _WIDTH)))


def _lines(analysis: RunAnalysis, width: int) -> Iterator[str]:
    yield wording.clean(str(analysis.run.folder))
    for gpu in analysis.run.facts.get("host", {}).get("gpus", [])[:1]:
        yield wording.clean(f"{gpu.get('name', '?')}, driver {gpu.get('driver_version', '?')}")
    yield ""
    rows = analysis.tables["phase_summary"].to_dicts()
    several = len({row["rank"] for row in rows}) > 1
    yield from _table([row for row in rows if row["rank"] == 0], width)
    if several:
        yield "Rank 0 is shown; phase_summary.csv has every rank."
    yield ""
    yield "share: of the GPU time, in matrix multiplies. calls: CUDA calls that launch kernels."
    yield "unprofiled: ms without nsys. added: what nsys adds to a decode step."
    for found in analysis.findings:
        if found.level != "ok":
            told = f"{found.level}: {wording.clean(found.sentence)}"
            yield from textwrap.wrap(told, width, subsequent_indent="  ")
    yield f"{len(analysis.tables)} tables in {wording.clean(str(analysis.run.folder / 'analysis'))}"


def _table(rows: list[dict[str, Any]], width: int) -> Iterator[str]:
    wide = _cells(rows, _COLUMNS)
    fits = sum(map(len, wide[0])) + len(_GAP) * (len(wide[0]) - 1) <= width
    narrow = [column for column in _COLUMNS if not column[3]]
    yield from (_GAP.join(line) for line in (wide if fits else _cells(rows, narrow)))


def _cells(rows: list[dict[str, Any]], columns: Any) -> list[list[str]]:
    """Heading and rows, padded to one width per column."""
    texts = [[heading for heading, *_ in columns]]
    texts += [[wording.clean(form(row[name])) for _, name, form, _ in columns] for row in rows]
    widths = [max(map(len, column)) for column in zip(*texts, strict=True)]
    aligned = ["<" if name in _TEXTS else ">" for _, name, *_ in columns]
    return [
        [f"{cell:{side}{size}}" for cell, side, size in zip(line, aligned, widths, strict=True)]
        for line in texts
    ]
