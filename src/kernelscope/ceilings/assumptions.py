"""What a roofline rests on, and what limits it, as findings."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import polars as pl

from kernelscope.ceilings.against import MatchedSteps
from kernelscope.ceilings.facts import Facts
from kernelscope.ceilings.feed_forward import SHARED
from kernelscope.ceilings.formats import PLAIN
from kernelscope.ceilings.gpus import HALF, Peaks
from kernelscope.ceilings.quantization import Quantization
from kernelscope.ceilings.work import Attention, DeltaRule, Multiply
from kernelscope.findings import ROOFLINE, Finding, plural

_TERA = 1e12


def _ok(message: str) -> Finding:
    return Finding(ROOFLINE, "ok", message)


def _warning(message: str, action: str = "") -> Finding:
    return Finding(ROOFLINE, "warning", message, action)


def model_findings(
    facts: Facts, quantization: Quantization, named: str | None
) -> Iterator[Finding]:
    """About the configuration, whatever the steps are."""
    yield _ok(
        "Each weight, input and output moves through memory once per call; nothing is taken off "
        "for what is still in the cache, nothing added for what is read twice."
    )
    if quantization.groups:
        where = "--quantization" if named else "the configuration"
        yield _ok(
            f"Weights are in {quantization.name}, as {where} says"
            f"{'' if quantization.lm_head else '; lm_head is in 16 bits'}."
        )
    else:
        yield _ok("Weights are in 16 bits: the configuration names no quantization.")
    yield _ok(
        f"Each layer is divided among {plural(facts.tensor_parallel, 'GPU')} (--tensor-parallel)."
    )
    if not facts.is_known_family:
        yield _warning(
            f"The model type {facts.values.get('model_type')!r} is not among those whose structure "
            "is known here: it is taken for a gated feed-forward block and plain attention."
        )


def peak_findings(peaks: Peaks, steps: Sequence[MatchedSteps]) -> Iterator[Finding]:
    """Where the ceilings come from."""
    flops = ", ".join(
        f"{value / _TERA:,.0f} {'TOP/s' if name.startswith('int') else 'TFLOP/s'} {name.upper()}"
        for name, value in peaks.flops_per_s.items()
    )
    yield _ok(
        f"{peaks.gpu}: {peaks.bandwidth_bytes_per_s / _TERA:,.2f} TB/s from "
        f"{peaks.bandwidth_source}; {flops}, dense, from {peaks.compute_source}; the ridge point "
        f"is at {peaks.ridge():,.0f} FLOP per byte ({HALF.upper()})."
    )
    used = {floor.work.compute for one in steps for floor in one.floors}
    lacking = sorted(used - set(peaks.flops_per_s))
    if lacking:
        yield _warning(
            f"{peaks.gpu} has no {', '.join(lacking).upper()} peak here; that of {HALF.upper()} "
            "is used instead."
        )


def step_findings(
    steps: MatchedSteps, rows: pl.DataFrame, tensor_parallel: int
) -> Iterator[Finding]:
    """About the steps of one phase."""
    phase = steps.key[1]
    works = steps.match.works
    yield from _contradictions(steps, tensor_parallel)
    yield from _experts(steps)
    if any(isinstance(work, Attention) for work in works):
        yield from _context(steps)
    if any(isinstance(work, DeltaRule) for work in works):
        state = next(work for work in works if isinstance(work, DeltaRule))
        yield _ok(
            f"The recurrent state has {state.state_bits} bits per element and is read and "
            "written once per request and step."
        )
    yield from _impossible(steps, rows)
    idle = rows.filter(pl.col("kernel_ms") == 0)["name"].to_list()
    if idle:
        yield _warning(f"No kernel of {phase} steps was found for {', '.join(idle)}.")
    unmatched = max(match.unmatched for match in steps.matches.values())
    if unmatched:
        yield _warning(
            f"{plural(unmatched, 'GEMM')} of each {phase} step, outside the layers, "
            "is not in the configuration (a draft model?) and has no floor."
        )


def _impossible(steps: MatchedSteps, rows: pl.DataFrame) -> Iterator[Finding]:
    """Work that was faster than its floor allows, so that its floor is none."""
    is_one_token = steps.workload.tokens.max() <= 1  # whose experts are no estimate
    routed = {} if is_one_token else {work.name: work.experts for work in _routed(steps)}
    for row in rows.filter(pl.col("of_peak") > 1).to_dicts():
        share = f"{row['of_peak']:.1%}".replace("%", " %")
        message = f"{row['name']} reaches {share} of peak in {steps.key[1]} steps: "
        if row["name"] in routed:
            experts = routed[row["name"]]
            assert experts is not None  # noqa: S101 - of routed work
            touched = experts.touched(steps.workload.tokens).mean() / row["of_peak"]
            yield _warning(
                f"{message}in its time no more than {touched:,.0f} of {experts.count} experts can "
                "have been read, fewer than uniform routing touches (random weights and alike "
                "tokens do that). Its floor, and that of the step, is too high."
            )
        else:
            yield _warning(
                f"{message}this is no floor. Its operands were in the cache, or the format, the "
                "tensor parallel size or the model was another one.",
                "Check --model-config, --quantization and --tensor-parallel.",
            )


def _routed(steps: MatchedSteps) -> list[Multiply]:
    return [work for work in steps.match.works if isinstance(work, Multiply) and work.experts]


def _contradictions(steps: MatchedSteps, tensor_parallel: int) -> Iterator[Finding]:
    """Kernels that a run as it was described would not have."""
    held = steps.categories
    if "communication" in held and tensor_parallel == 1:
        yield _warning(
            f"{steps.key[1]} steps have collectives, but each GPU is taken to hold the whole "
            "model.",
            "Give the run's tensor parallel size with --tensor-parallel.",
        )
    multiplies = [work for work in steps.match.works if isinstance(work, Multiply)]
    if "quantize" in held and all(work.format.name == PLAIN for work in multiplies):
        yield _warning(
            f"{steps.key[1]} steps have kernels that quantize, but all weights are taken to be in "
            "16 bits.",
            "Give the run's format with --quantization.",
        )


def _experts(steps: MatchedSteps) -> Iterator[Finding]:
    routed = _routed(steps)
    if not routed:
        return
    experts = routed[0].experts
    assert experts is not None  # noqa: S101 - chosen above
    tokens = steps.workload.tokens
    if any(work.name.startswith(SHARED) for work in steps.match.works):
        yield _warning(
            f"{steps.key[1]}: router and shared experts are taken to be launched in this order. On "
            "a stream of their own they may not be, and then only the sum of these rows is sure."
        )
    yield _ok(
        f"{steps.key[1]}: a step of {tokens.mean():,.4g} token(s) touches "
        f"{experts.touched(tokens).mean():,.4g} of {experts.count} experts: each token chooses "
        f"{experts.chosen}, uniformly and independently."
    )


def _context(steps: MatchedSteps) -> Iterator[Finding]:
    generation, context, phase = steps.workload.generation, steps.workload.context, steps.key[1]
    if context.requests.any():
        yield _ok(
            f"{phase}: prompts begin in the step that computes them, unless its label says more."
        )
    lengths = generation.context[generation.requests > 0]
    if np.isnan(lengths).any():
        yield _warning(
            f"How long the context of generating requests is, the labels of {phase} steps do not "
            "say: attention has no floor there.",
            "Give --context-len N (tokens per request), or capture with detailed labels.",
        )
    elif lengths.size:
        yield _ok(
            f"{phase}: generating requests have {lengths.mean():,.0f} tokens of context (mean)."
        )
