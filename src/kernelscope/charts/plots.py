"""``summary.plot``: one method per picture."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import ModuleType
from typing import Any

import polars as pl

from kernelscope.charts import frames
from kernelscope.charts.palette import LIGHT, theme
from kernelscope.errors import MissingExtra

KINDS = ("shares", "grid", "strip", "layers", "steps")
"""The methods of :class:`Plots`."""


@dataclass(frozen=True, eq=False)
class Plots:
    """Charts of a summary, as Altair charts; they need ``pip install 'kernelscope[report]'``.

    Every method takes ``phase`` (by default decode, or the first one there is; ``shares`` and
    ``steps`` show every phase), ``rank`` and ``batch``, and raises PhaseNotFound if there is no
    such step, ChartError if there is nothing to draw, and MissingExtra without Altair.

    Attributes:
        tables: of the summary.
        subtitle: a line below each title: the GPU and the trace.
        theme: ``"light"`` or ``"dark"``.
        width: in pixels, or ``"container"`` to fill what a page leaves.
        titled: whether a chart has a title; a page may have headings instead.
    """

    tables: Mapping[str, pl.DataFrame]
    subtitle: str = ""
    theme: str = LIGHT
    width: int | str = 640
    titled: bool = True

    def shares(
        self,
        phase: str | None = None,
        *,
        rank: int = 0,
        batch: int | None = None,
        by: str = "category",
    ) -> Any:
        """A bar per category (or ``by="family"``): share of the phase's kernel time."""
        found = frames.places(self.tables, phase, rank, batch)
        parts = [(one.told, frames.shares(self.tables, one, by)) for one in found]
        return draw().shares(parts, self._frame(f"Kernel time by {by}", found))

    def grid(self, phase: str | None = None, *, rank: int = 0, batch: int | None = None) -> Any:
        """The typical step: one square per kernel in launch order, coloured by category."""
        where = frames.places(self.tables, phase, rank, batch)[0]
        kernels = frames.typical(self.tables, where)
        title = f"The {kernels.height:,} kernels of a step"
        return draw().grid(frames.grid(kernels), self._frame(title, [where]))

    def strip(self, phase: str | None = None, *, rank: int = 0, batch: int | None = None) -> Any:
        """The typical step on its time line; what is empty is idle."""
        where = frames.places(self.tables, phase, rank, batch)[0]
        kernels = frames.typical(self.tables, where)
        span_ms = float(kernels["end_ms"].to_numpy().max())
        title = f"A step of {span_ms:,.2f} ms, kernel by kernel"
        return draw().strip(frames.strip(kernels), self._frame(title, [where]))

    def layers(self, phase: str | None = None, *, rank: int = 0, batch: int | None = None) -> Any:
        """Time per layer by family; the summary must have been made with ``layers=True``."""
        where = frames.places(self.tables, phase, rank, batch)[0]
        rows = frames.layers(self.tables, where)
        return draw().layers(rows, self._frame("Kernel time per layer", [where]))

    def steps(self, phase: str | None = None, *, rank: int = 0, batch: int | None = None) -> Any:
        """The time of every complete step, with its percentiles."""
        found = frames.places(self.tables, phase, rank, batch)
        parts = [(one.told, frames.steps(self.tables, one)) for one in found]
        return draw().steps(parts, self._frame("Time of each step", found))

    def _frame(self, title: str, found: list[frames.Where]) -> Any:
        if not self.titled:
            return draw().Frame("", "", theme(self.theme), self.width)
        named = f"{title} ({found[0].told})" if len(found) == 1 else title
        return draw().Frame(named, self.subtitle, theme(self.theme), self.width)


def plot_roofline(
    table: pl.DataFrame,
    bytes_per_s: float,
    flops_per_s: Mapping[str, float],
    *,
    title: str,
    subtitle: str = "",
    theme_name: str = LIGHT,
    width: int | str = 640,
) -> Any:
    """The pieces of work of one phase (:data:`kernelscope.ceilings.ROOFLINE`) below the roofs."""
    frame = draw().Frame(title, subtitle, theme(theme_name), width)
    from kernelscope.charts.ceiling import roofline

    return roofline(frames.roofline(table), bytes_per_s, dict(flops_per_s), frame)


def draw() -> ModuleType:
    """The module that draws.

    Raises:
        MissingExtra: Altair is not installed.
    """
    try:
        from kernelscope.charts import drawing
    except ModuleNotFoundError as error:
        raise missing(error) from error
    return drawing


def missing(error: ModuleNotFoundError) -> MissingExtra:
    """That a chart needs a package that is not there."""
    return MissingExtra(
        f"Charts need {error.name}, which is not installed.",
        hint="Install it with: pip install 'kernelscope[report]'",
    )
