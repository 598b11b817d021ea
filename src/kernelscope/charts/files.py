"""A chart as a file, through vl-convert: no browser and no network."""

from __future__ import annotations

import base64
import hashlib
import html
import json
from collections.abc import Callable, Mapping
from types import ModuleType
from typing import Any

from kernelscope.charts.plots import missing
from kernelscope.errors import ChartError

_PNG_SCALE = 2
DRAW = (
    "const spec = JSON.parse(document.getElementById('spec').textContent);"
    "vegaEmbed('#chart', spec, {mode: 'vega-lite', renderer: 'svg', ast: true, actions: false,"
    " defaultStyle: false, tooltip: {disableDefaultStyle: true}}).catch(console.error);"
)
STYLE = (
    "body{margin:1rem}#vg-tooltip-element{position:fixed;visibility:hidden;padding:6px;z-index:9;"
    "background:#fff;color:#111;border:1px solid #999;font:12px sans-serif;pointer-events:none}"
    "#vg-tooltip-element.visible{visibility:visible}"
    "#vg-tooltip-element td.key{color:#555;text-align:right;padding-right:6px}"
)


def render_chart(chart: Any, format: str) -> str | bytes:
    """A chart of :class:`Plots` in one of :data:`CHART_FORMATS`.

    Raises:
        ChartError: there is no such format.
        MissingExtra: vl-convert is not installed.
    """
    if format not in CHART_FORMATS:
        raise ChartError(
            f"A chart cannot be written as {format or 'a file without a suffix'!r}.",
            hint=f"End the name in one of: {', '.join(f'.{name}' for name in CHART_FORMATS)}.",
        )
    return CHART_FORMATS[format](chart.to_dict())


def _svg(spec: dict[str, Any]) -> str:
    return str(converter().vegalite_to_svg(spec))


def _png(spec: dict[str, Any]) -> bytes:
    return bytes(converter().vegalite_to_png(spec, scale=_PNG_SCALE))


def _json(spec: dict[str, Any]) -> str:
    return json.dumps(spec, indent=1, ensure_ascii=True, allow_nan=False) + "\n"


def _html(spec: dict[str, Any]) -> str:
    """A page of its own: scripts inside, and a policy that allows nothing else."""
    library = javascript()
    allowed = " ".join(digest(text) for text in (library, DRAW))
    policy = f"default-src 'none'; script-src {allowed}; style-src {digest(STYLE)}; base-uri 'none'"
    title = html.escape(str(spec.get("description", "chart")))
    return (
        '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{title}</title>\n<style>{STYLE}</style>\n</head><body>\n"
        f'<div id="chart"></div>\n<script type="application/json" id="spec">{safe_json(spec)}'
        f"</script>\n<script>{library}</script>\n<script>{DRAW}</script>\n</body></html>\n"
    )


CHART_FORMATS: Mapping[str, Callable[[dict[str, Any]], str | bytes]] = {
    "svg": _svg,
    "png": _png,
    "html": _html,
    "json": _json,
}
"""Suffix of a file -> function of a Vega-Lite specification."""


def javascript() -> str:
    """Vega, Vega-Lite and Vega-Embed as one script that defines ``vegaEmbed``.

    Raises:
        MissingExtra: vl-convert is not installed.
    """
    return str(converter().javascript_bundle()).replace("</script", "<\\/script")


def safe_json(data: object) -> str:
    """JSON that can stand in a page: nothing in it begins a tag."""
    text = json.dumps(data, ensure_ascii=True, allow_nan=False, separators=(",", ":"))
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def digest(text: str) -> str:
    """How a content security policy names an inline script or style."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


def converter() -> ModuleType:
    """vl-convert.

    Raises:
        MissingExtra: it is not installed.
    """
    try:
        import vl_convert
    except ModuleNotFoundError as error:
        raise missing(error) from error
    module: ModuleType = vl_convert
    return module
