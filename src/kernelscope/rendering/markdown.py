"""The report as Markdown, for a pull request or a page."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import polars as pl

from kernelscope.rendering import wording
from kernelscope.summary.figures import PhaseSummary
from kernelscope.summary.model import Summary

_NAMED = {
    "category": {"category": "category"},
    "family": {"family": "family"},
    "kernel": {"short_name": "kernel", "category": "category"},
    "layer": {"layer_kind": "layer", "each": "each"},
}


def render_markdown(summary: Summary, by: str) -> str:
    """Headings, a table of figures and a table of shares per phase."""
    return "\n".join(_lines(summary, by)) + "\n"


def _lines(summary: Summary, by: str) -> Iterator[str]:
    info = summary.info
    yield f"# {escape(info.path)}"
    yield ""
    if info.derived:
        yield from [f"Derived from {escape(info.derived.told)}.", ""]
    yield (
        f"{escape(wording.gpus(summary))}, nsys {escape(info.exporter or 'of unknown version')}, "
        f"{wording.graph_trace(summary)}. Steps by {summary.step_method}: "
        f"{summary.step_evidence}. kernelscope {summary.kernelscope_version}, "
        f"rules {summary.rules_version}."
    )
    for phase in summary.phases:
        yield from _phase(summary, phase, by)
    lines = wording.across_ranks(summary)
    if lines:
        yield from ["", "## Across ranks", ""]
        yield from (f"- {escape(line)}" for line in lines)
    if summary.excluded or summary.outside:
        yield from ["", "## In no average", ""]
        yield from (
            f"- {escape(wording.left_out(left))}" for left in (*summary.excluded, *summary.outside)
        )
    if summary.notes:
        yield from ["", "## Notes", ""]
        yield from (f"- {escape(note)}" for note in summary.notes)
    if summary.warnings:
        yield from ["", "## Warnings", ""]
        yield from (f"- {escape(warning)}" for warning in summary.warnings)


def _phase(summary: Summary, phase: PhaseSummary, by: str) -> Iterator[str]:
    yield from ["", f"## {escape(wording.phase_title(summary, phase))}", ""]
    yield from table_lines(("figure", "value", "meaning"), "lrl", wording.facts(phase))
    yield ""
    if lines := wording.parts(summary, phase):
        yield from [*(f"- {escape(line)}" for line in lines), ""]
    named = _NAMED[by]
    rows = wording.shown_rows(summary, phase, by)
    if by == "layer":
        yield from [escape(summary.layer_evidence(phase)), ""]
    header = (*named.values(), "kernels per step", "ms per step", "share of kernel time")
    yield from table_lines(header, "l" * len(named) + "rrr", _share_rows(phase, rows, named))


def _share_rows(
    phase: PhaseSummary, rows: pl.DataFrame, named: Iterable[str]
) -> Iterator[Sequence[str]]:
    for row in rows.to_dicts():
        is_graph = row.get("category", row.get("family")) == "cuda_graph"
        yield (
            *(row[name] for name in named),
            wording.count(row["kernels_per_step"]),
            wording.milliseconds(row["kernel_ms"]),
            wording.share(row["share"], is_lower_bound=phase.opaque_share > 0 and not is_graph),
        )


def table_lines(header: Sequence[str], align: str, rows: Iterable[Sequence[str]]) -> Iterator[str]:
    """A Markdown table; ``align`` has an l or r per column."""
    yield f"| {' | '.join(header)} |"
    yield f"|{'|'.join('---:' if side == 'r' else '---' for side in align)}|"
    for row in rows:
        yield f"| {' | '.join(escape(cell) for cell in row)} |"


def escape(text: str) -> str:
    """Text from a trace without meaning to Markdown, HTML or a terminal."""
    shown = wording.clean(text)
    for character in "\\`*_{}[]<>|#~":
        shown = shown.replace(character, f"\\{character}")
    return shown.replace("&", "&amp;").replace("\\<", "&lt;").replace("\\>", "&gt;")
