"""The picture of a roofline."""

from __future__ import annotations

from typing import Any

import altair as alt
import polars as pl

from kernelscope.charts.drawing import PLOT_HEIGHT, Frame, data, finished, scaled

_SHADES = {
    "gemm": "gemm",
    "attention": "attention",
    "recurrence": "linear_attention",
    "convolution": "conv",
}
"""Kind of work in a roofline -> the category whose colour it has."""


def roofline(
    work: pl.DataFrame, bytes_per_s: float, flops_per_s: dict[str, float], frame: Frame
) -> Any:
    """Achieved TFLOP/s over intensity, below the roofs; larger points take more time."""
    lowest = min([*work["flop_per_byte"], 0.5])
    highest = max([*work["flop_per_byte"], 2 * max(flops_per_s.values()) / bytes_per_s])
    roofs = pl.DataFrame(
        [
            (name, at, min(at * bytes_per_s, peak) / 1e12)
            for name, peak in flops_per_s.items()
            for at in (lowest, peak / bytes_per_s, highest)
        ],
        schema={"roof": pl.String, "flop_per_byte": pl.Float64, "tflops": pl.Float64},
        orient="row",
    )
    x = alt.X("flop_per_byte:Q", title="FLOP per byte", scale=alt.Scale(type="log"))
    y = alt.Y("tflops:Q", title="TFLOP/s", scale=alt.Scale(type="log"))
    lines = (
        alt.Chart(data(roofs))
        .mark_line(color=frame.theme.muted, aria=False)
        .encode(x=x, y=y, strokeDash=alt.StrokeDash("roof:N", title="roof"))
    )
    kinds = work["kind"].unique(maintain_order=True).to_list()
    points = (
        alt.Chart(data(work))
        .mark_point(filled=True, opacity=0.85, aria=False)
        .encode(
            x=x,
            y=y,
            size=alt.Size("kernel_ms:Q", title="ms per step", scale=alt.Scale(range=[30, 500])),
            color=scaled("kind", kinds, frame.theme.colours([_SHADES[kind] for kind in kinds])),
            tooltip=[
                alt.Tooltip("work:N", title="work"),
                alt.Tooltip("bound:N", title="bound"),
                alt.Tooltip("flop_per_byte:Q", title="FLOP per byte", format=",.2f"),
                alt.Tooltip("tflops:Q", title="TFLOP/s", format=",.2f"),
                alt.Tooltip("of_peak:Q", title="of peak", format=".1%"),
                alt.Tooltip("kernel_ms:Q", title="ms per step", format=",.3f"),
            ],
        )
    )
    both = (lines + points).properties(width=frame.width, height=PLOT_HEIGHT + PLOT_HEIGHT // 2)
    return finished([both], frame, "Work against the ceilings")
