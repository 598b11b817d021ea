"""The pictures themselves; imported on use only, because Altair is.

Data go into the specification as they are: a chart is complete without a file beside it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import altair as alt
import polars as pl

from kernelscope.charts.frames import StepTimes, Strip, last_number
from kernelscope.charts.palette import Theme
from kernelscope.rules.tables import CUDA_GRAPH

WIDTH = 640
_CELL_GAP = 0.12
_STRIP_ROW_PX = 26
_BAR_PX = 20
PLOT_HEIGHT = 240
_LEGEND_COLUMNS = 4
_LABEL_ROOM = 1.45
_DIGITS = 4
_LEAST_PERCENT = 0.05


@dataclass(frozen=True)
class Frame:
    """What stands around a picture: ``title``, a line below it, and the colours of the page.

    ``width`` is in pixels, or "container" to fill what a page leaves.
    """

    title: str
    subtitle: str
    theme: Theme
    width: int | str = WIDTH


def shares(phases: Sequence[tuple[str, pl.DataFrame]], frame: Frame) -> Any:
    """A bar per category, largest first, under each other for several phases."""
    parts = [_share_bars(rows, frame, phase if len(phases) > 1 else None) for phase, rows in phases]
    return finished(parts, frame, "Share of kernel time")


def _share_bars(rows: pl.DataFrame, frame: Frame, phase: str | None) -> Any:
    names = rows["what"].to_list()
    labelled = rows.with_columns(
        label=pl.format("{} % · {} ms", _percent(rows), pl.col("kernel_ms").round(3))
    )
    base = alt.Chart(data(labelled)).encode(
        y=alt.Y("what:N", sort=names, title=None, axis=alt.Axis(labelLimit=140)),
        x=alt.X(
            "share:Q",
            title="of kernel time",
            axis=alt.Axis(format="%", values=[at / 10 for at in range(11)]),
            scale=alt.Scale(domain=[0, _room(rows)], nice=False),
        ),
        tooltip=[
            alt.Tooltip("what:N", title="what"),
            alt.Tooltip("kernels:Q", title="kernels per step", format=",.1f"),
            alt.Tooltip("kernel_ms:Q", title="ms per step", format=",.3f"),
            alt.Tooltip("share:Q", title="of kernel time", format=".2%"),
        ],
    )
    bars = base.mark_bar(aria=False).encode(color=_colour("what", names, frame.theme, legend=False))
    texts = base.mark_text(align="left", dx=4, color=frame.theme.text, aria=False).encode(
        text="label:N"
    )
    sized = (bars + texts).properties(width=frame.width, height=_BAR_PX * max(rows.height, 1))
    return sized if phase is None else sized.properties(title=phase)


def _percent(rows: pl.DataFrame) -> pl.Expr:
    """A share as text: nothing is 0.0 that is not, and what ran in opaque replays adds to it."""
    percent = pl.col("share") * 100
    rounded = percent.round(1).cast(pl.String)
    is_bound = pl.lit(CUDA_GRAPH in rows["what"]) & (pl.col("what") != CUDA_GRAPH)
    return (
        pl.when((percent > 0) & (percent < _LEAST_PERCENT))
        .then(pl.when(is_bound).then(pl.lit("> 0")).otherwise(pl.lit("<0.1")))
        .when(is_bound & (percent > 0))
        .then(pl.format("≥ {}", rounded))
        .otherwise(rounded)
    )


def _room(rows: pl.DataFrame) -> float:
    """The end of the scale: the longest bar, and its label beside it."""
    return float(rows["share"].to_numpy().max(initial=0.01)) * _LABEL_ROOM


def grid(kernels: pl.DataFrame, frame: Frame) -> Any:
    """One square per kernel in launch order, coloured by category."""
    rows = last_number(kernels["row"]) + 1
    columns = last_number(kernels["column"]) + 1
    counted = kernels.with_columns(
        what=pl.format("{} ({})", pl.col("category"), pl.len().over("category"))
    )
    shown = counted.select("place", "kernel", "what", "us", "column", "row")
    squares = (
        alt.Chart(data(shown))
        .mark_rect(aria=False)
        .encode(
            x=alt.X("column:O", axis=None, scale=alt.Scale(padding=_CELL_GAP)),
            y=alt.Y("row:O", axis=None, scale=alt.Scale(padding=_CELL_GAP)),
            color=_legend(counted, frame.theme),
            tooltip=[
                alt.Tooltip("place:Q", title="kernel number"),
                alt.Tooltip("kernel:N", title="kernel"),
                alt.Tooltip("what:N", title="category"),
                alt.Tooltip("us:Q", title="µs", format=",.2f"),
            ],
        )
        .properties(width=frame.width, height=rows * min(WIDTH // columns, _STRIP_ROW_PX))
    )
    return finished([squares], frame, f"{kernels.height:,} kernels in launch order")


def strip(folded: Strip, frame: Frame) -> Any:
    """Kernels at their true time; what is empty is idle. The time line is folded into rows."""
    height = 0.84
    pieces = folded.pieces.with_columns(
        top=pl.col("row") + pl.when(pl.col("beside")).then(0.5).otherwise((1 - height) / 2),
        bottom=pl.col("row") + (1 + height) / 2,
        what=pl.col("category"),
    ).sort("beside", maintain_order=True)
    shown = pieces.select("kernel", "what", "start_ms", "us", "from_ms", "to_ms", "top", "bottom")
    marks = (
        alt.Chart(data(shown))
        .mark_rect(aria=False)
        .encode(
            x=alt.X(
                "from_ms:Q",
                title=f"ms within a row of {folded.row_ms:g} ms",
                scale=alt.Scale(domain=[0, folded.row_ms], nice=False),
            ),
            x2="to_ms:Q",
            y=alt.Y(
                "top:Q",
                title="row begins at",
                scale=alt.Scale(domain=[0, folded.rows], reverse=True, nice=False),
                axis=alt.Axis(
                    values=[row + 0.5 for row in range(folded.rows)],
                    labelExpr=f"format((datum.value - 0.5) * {folded.row_ms}, '.4~g') + ' ms'",
                    grid=False,
                    ticks=False,
                ),
            ),
            y2="bottom:Q",
            color=_legend(pieces, frame.theme),
            tooltip=[
                alt.Tooltip("kernel:N", title="kernel"),
                alt.Tooltip("what:N", title="category"),
                alt.Tooltip("start_ms:Q", title="starts at ms", format=",.4f"),
                alt.Tooltip("us:Q", title="µs", format=",.2f"),
            ],
        )
        .properties(width=frame.width, height=folded.rows * _STRIP_ROW_PX)
    )
    return finished([marks], frame, "Kernels at their true time")


def layers(rows: pl.DataFrame, frame: Frame) -> Any:
    """A bar per layer in launch order, stacked by family."""
    order = rows["layer"].unique(maintain_order=True).to_list()
    families = _largest_first(rows, "family", "kernel_ms")
    stacked = rows.with_columns(
        rank=pl.col("family").replace_strict(families, range(len(families)), return_dtype=pl.Int64)
    )
    bars = (
        alt.Chart(data(stacked))
        .mark_bar(aria=False)
        .encode(
            x=alt.X("layer:N", sort=order, title="layer", axis=alt.Axis(labelOverlap=True)),
            y=alt.Y("kernel_ms:Q", title="kernel ms per step"),
            color=_colour("family", families, frame.theme),
            order=alt.Order("rank:Q"),
            tooltip=[
                alt.Tooltip("layer:N", title="layer"),
                alt.Tooltip("kind:N", title="kind"),
                alt.Tooltip("family:N", title="family"),
                alt.Tooltip("kernels:Q", title="kernels per step", format=",.1f"),
                alt.Tooltip("kernel_ms:Q", title="ms per step", format=",.4f"),
            ],
        )
        .properties(width=frame.width, height=PLOT_HEIGHT)
    )
    return finished([bars], frame, "Time per layer by family")


def steps(phases: Sequence[tuple[str, StepTimes]], frame: Frame) -> Any:
    """A point per step and a line per percentile, under each other for several phases."""
    parts = [_step_points(phase, times, frame) for phase, times in phases]
    return finished(parts, frame, "Time of each step")


def _step_points(phase: str, times: StepTimes, frame: Frame) -> Any:
    y = alt.Y("ms:Q", title=f"ms, {times.measure}", scale=alt.Scale(zero=False, padding=8))
    points = (
        alt.Chart(data(times.steps))
        .mark_point(filled=True, size=36, color=frame.theme.categories["gemm"], aria=False)
        .encode(
            x=alt.X("step:Q", title="step", axis=alt.Axis(tickMinStep=1, format="d"),
                    scale=alt.Scale(zero=False, padding=8)),
            y=y,
            tooltip=[
                alt.Tooltip("step:Q", title="step"),
                alt.Tooltip("ms:Q", title="ms", format=",.3f"),
                alt.Tooltip("kernels:Q", title="kernels", format=","),
            ],
        )
    )  # fmt: skip
    rules = (
        alt.Chart(data(times.percentiles))
        .mark_rule(color=frame.theme.muted, strokeDash=[4, 3], aria=False)
        .encode(y=y)
    )
    told = ", ".join(f"{what} {ms:,.3f}" for what, ms in times.percentiles.rows())
    title = f"{phase}: {told} ms" if told else phase
    drawn = rules + points if told else points
    return drawn.properties(width=frame.width, height=PLOT_HEIGHT // 2, title=title)


def finished(parts: list[Any], frame: Frame, what: str) -> Any:
    """Parts under each other, with the title and the colours of the page."""
    chart = parts[0] if len(parts) == 1 else alt.vconcat(*parts, spacing=24)
    page = frame.theme
    titled = chart
    if frame.title:
        below = frame.subtitle or alt.Undefined
        title = alt.TitleParams(frame.title, subtitle=below, anchor="start")
        titled = chart.properties(title=title)
    return titled.properties(description=f"{what}. {frame.title}".strip()).configure(
        background=page.background,
        view={"stroke": None},
        title={"color": page.text, "subtitleColor": page.muted, "fontSize": 14, "offset": 12},
        axis={
            "labelColor": page.text,
            "titleColor": page.muted,
            "gridColor": page.line,
            "domainColor": page.line,
            "tickColor": page.line,
            "titleFontWeight": "normal",
        },
        legend={
            "labelColor": page.text,
            "titleColor": page.muted,
            "orient": "bottom",
            "columns": _LEGEND_COLUMNS,
            "symbolType": "square",
            "labelLimit": 200,
            "titleFontWeight": "normal",
        },
    )


def _legend(kernels: pl.DataFrame, theme: Theme) -> Any:
    """The colour of ``what``, most kernels first, by the category behind it."""
    counted = (
        kernels.group_by("what", "category")
        .agg(kernels=pl.len())
        .sort("kernels", "what", descending=[True, False])
    )
    return scaled("what", counted["what"].to_list(), theme.colours(counted["category"].to_list()))


def _colour(field: str, names: list[str], theme: Theme, *, legend: bool = True) -> Any:
    return scaled(field, names, theme.colours(names), legend=legend)


def scaled(field: str, names: list[str], colours: list[str], *, legend: bool = True) -> Any:
    """A colour for each value of a field, in that order."""
    shown = alt.Legend(title=None) if legend else None
    return alt.Color(
        f"{field}:N", sort=names, scale=alt.Scale(domain=names, range=colours), legend=shown
    )


def _largest_first(rows: pl.DataFrame, by: str, value: str) -> list[str]:
    sums = rows.group_by(by).agg(pl.col(value).sum()).sort(value, by, descending=[True, False])
    return sums[by].to_list()


def data(rows: pl.DataFrame) -> Any:
    """Rows as values of the specification, floats to the fourth digit."""
    rounded = rows.with_columns(pl.col(pl.Float64).round(_DIGITS))
    return alt.Data(values=rounded.to_dicts())
