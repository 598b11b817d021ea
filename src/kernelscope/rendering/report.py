"""The report: one page with everything; no network, no scripts but its own."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from importlib import resources
from pathlib import PurePath
from typing import Any

from kernelscope.ceilings import Roofline
from kernelscope.charts import javascript, light_to_dark
from kernelscope.charts.files import digest, safe_json
from kernelscope.charts.plots import missing
from kernelscope.diagnosis import Diagnosis
from kernelscope.errors import ChartError
from kernelscope.rendering import wording
from kernelscope.rendering.diagnosis import told, verdict
from kernelscope.summary.figures import PhaseSummary
from kernelscope.summary.model import Summary

_CONTAINER = "container"
_MOST_KERNELS = 6_000
"""That are drawn one by one on a page, twice each: about 300 bytes per kernel, of 3 MB in all."""
_DEFINITIONS = (
    (
        "step",
        (
            "one pass of the model that a label of the engine names; a kernel belongs to the step "
            "in whose window its launching call was made"
        ),
    ),
    (
        "typical step",
        (
            "of the complete steps with the usual kernel count the one whose span is the median; "
            "the grid and the strip show it"
        ),
    ),
    ("share", "fraction of the summed kernel time of the phase's complete steps on one rank"),
    (
        "wall",
        (
            "first kernel start to the next step's first kernel start; median, with the 10th and "
            "90th percentile (linear interpolation)"
        ),
    ),
    ("span", "first kernel start to last kernel end of a step; mean"),
    ("kernel time", "sum of the durations of a step's kernels; mean"),
    ("busy", "time in which at least one kernel ran; mean"),
    (
        "idle",
        (
            "span less busy, split by what the GPU waited for: inside a graph replay, for the CPU "
            "to make the next launching call, or between that call and the kernel's start"
        ),
    ),
    ("floor", "the least time that memory bandwidth and compute peak allow for the work"),
    (
        "profiler",
        (
            "all durations were measured under the profiler; it makes launch-bound steps longer, "
            "while shares and kernel durations hold"
        ),
    ),
)


@dataclass(frozen=True)
class Report:
    """What a page shows: a summary with layers, the findings on its trace, perhaps a roofline."""

    summary: Summary
    diagnosis: Diagnosis
    roofline: Roofline | None = None


def render_report(report: Report) -> str:
    """The page.

    Raises:
        MissingExtra: Altair, Jinja2 or vl-convert is not installed.
    """
    try:
        from jinja2 import Environment, StrictUndefined
    except ModuleNotFoundError as error:
        raise missing(error) from error
    library = javascript()
    script, style = _part("report.js"), _part("report.css")
    environment = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True)
    summary = report.summary
    specs: dict[str, Any] = {}
    phases = [_phase(report, phase, number, specs) for number, phase in enumerate(summary.phases)]
    page = environment.from_string(_part("report.html.j2")).render(
        title=f"Where the steps of {wording.clean(PurePath(summary.info.path).name)} go",
        policy=_policy(library, script, style),
        style=style,
        script=script,
        library=library,
        ran=list(_ran(report)),
        facts=_side_by_side(summary),
        phases=phases,
        kernels=_kernels(summary),
        verdict=verdict(report.diagnosis),
        findings=[
            {"level": one.level, "text": wording.clean(told(one))}
            for one in report.diagnosis.findings
        ],
        left=[wording.left_out(left) for left in (*summary.excluded, *summary.outside)],
        definitions=_DEFINITIONS,
        made_by=f"kernelscope {summary.kernelscope_version}, rules {summary.rules_version}",
        specs=safe_json(specs),
        dark=safe_json(light_to_dark()),
    )
    return str(page)


def _part(name: str) -> str:
    return resources.files(__package__).joinpath("page", name).read_text("utf-8")


def _policy(library: str, script: str, style: str) -> str:
    return (
        f"default-src 'none'; script-src {digest(library)} {digest(script)}; "
        f"style-src {digest(style)}; base-uri 'none'; form-action 'none'"
    )


def _ran(report: Report) -> Iterator[tuple[str, str]]:
    summary = report.summary
    yield "GPU", wording.gpus(summary)
    # A page is shared: where the files lay on somebody's disk is nobody's business.
    yield "trace", wording.clean(PurePath(summary.info.path).name)
    yield "exported by", wording.clean(f"nsys {summary.info.exporter or 'of unknown version'}")
    yield "CUDA graphs", wording.graph_trace(summary).removeprefix("CUDA graphs: ")
    yield "steps", wording.clean(f"by {summary.step_method}: {summary.step_evidence}")
    if len(summary.ranks) > 1:
        yield "ranks", str(len(summary.ranks))
    if report.roofline is not None:
        found = report.roofline
        config = wording.clean("/".join(PurePath(found.provenance["model_config"]).parts[-2:]))
        yield "model", f"{config}, {found.weights / 1e9:,.2f} G weights in {found.quantization}"
    layers = dict.fromkeys(map(summary.layer_evidence, summary.phases))
    yield "layers", wording.clean(" ".join(layers))


def _side_by_side(summary: Summary) -> dict[str, Any]:
    """A row per figure, a column per phase."""
    columns = [{what: value for what, value, _ in wording.facts(one)} for one in summary.phases]
    names = dict.fromkeys(name for column in columns for name in column)
    return {
        "headings": ["figure", *(wording.phase_title(summary, one) for one in summary.phases)],
        "rows": [[name, *(column.get(name, "–") for column in columns)] for name in names],
    }


def _phase(
    report: Report, phase: PhaseSummary, number: int, specs: dict[str, Any]
) -> dict[str, Any]:
    """A section: charts (their specifications go into ``specs``) and the same as tables."""
    summary = report.summary
    plot = replace(summary.plot, width=_CONTAINER, titled=False)
    where = {"phase": phase.phase, "rank": phase.rank, "batch": phase.batch}
    drawn: list[tuple[str, Any, dict[str, Any]]] = [
        ("Each kernel of the typical step, in launch order", plot.grid, where),
        ("The same step on its time line: what is empty is idle", plot.strip, where),
        ("Share of kernel time per category", plot.shares, where),
        ("Kernel time per layer, by family", plot.layers, where),
        ("Time of each step", plot.steps, where),
    ]
    if report.roofline is not None:
        ceiling = {"rank": phase.rank, "width": _CONTAINER, "titled": False}
        drawn.append(("Roofline", report.roofline.plot, {"phase": phase.phase, **ceiling}))
    charts, notes = [], []
    before = sum(summary.rows(one, "typical").height for one in summary.phases[: number + 1])
    if before > _MOST_KERNELS:
        notes.append(f"A page shows {_MOST_KERNELS:,} kernels one by one; use kernelscope chart.")
        drawn = drawn[2:]
    for at, (title, method, arguments) in enumerate(drawn):
        try:
            spec = method(**arguments).to_dict()
        except ChartError as error:
            notes.append(wording.clean(f"{title}: {error.message}"))
            continue
        key = f"chart-{number}-{at}"
        specs[key] = spec
        charts.append({"id": key, "title": title, "alt": f"{title}: {_told(summary, phase)}"})
    return {
        "title": wording.phase_title(summary, phase),
        "charts": charts,
        "notes": notes,
        "tables": [_shares(summary, phase, by) for by in ("category", "family")],
    }


def _told(summary: Summary, phase: PhaseSummary) -> str:
    """The largest categories as a sentence, for those who do not see the chart."""
    rows = summary.rows(phase).head(3).to_dicts()
    shares = ", ".join(f"{row['category']} {wording.share(row['share'])}" for row in rows)
    kernels = wording.kernels_per_step(phase)
    return f"{kernels} kernels per step, {wording.milliseconds(phase.kernel_ms)} ms; {shares}"


def _shares(summary: Summary, phase: PhaseSummary, by: str) -> dict[str, Any]:
    return {
        "headings": [by, "kernels per step", "ms per step", "share of kernel time"],
        "rows": [[row[by], *_figures(phase, row)] for row in summary.rows(phase, by).to_dicts()],
    }


def _figures(phase: PhaseSummary, row: dict[str, Any]) -> list[str]:
    is_graph = row.get("category", row.get("family")) == "cuda_graph"
    bound = phase.opaque_share > 0 and not is_graph
    return [
        wording.count(row["kernels_per_step"]),
        wording.milliseconds(row["kernel_ms"]),
        wording.share(row["share"], is_lower_bound=bound),
    ]


def _kernels(summary: Summary) -> dict[str, Any]:
    rows = []
    for phase in summary.phases:
        for row in summary.rows(phase, "kernel").to_dicts():
            texts = [wording.clean(row["short_name"]), row["category"], phase.phase]
            values = [row["kernels_per_step"], row["kernel_ms"], row["share"]]
            rows.append(
                [{"text": text, "value": None} for text in texts]
                + [
                    {"text": text, "value": value}
                    for text, value in zip(_figures(phase, row), values, strict=True)
                ]
            )
    headings = ["kernel", "category", "phase", "per step", "ms per step", "share"]
    return {"headings": headings, "rows": rows}
