"""Pictures of a summary, through Altair (``pip install 'kernelscope[report]'``)."""

from kernelscope.charts.files import CHART_FORMATS, javascript, render_chart
from kernelscope.charts.palette import THEMES, light_to_dark
from kernelscope.charts.plots import KINDS, Plots, plot_roofline

__all__ = [
    "CHART_FORMATS",
    "KINDS",
    "THEMES",
    "Plots",
    "javascript",
    "light_to_dark",
    "plot_roofline",
    "render_chart",
]
