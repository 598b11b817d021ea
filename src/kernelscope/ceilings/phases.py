"""Each phase of a run matched to the model's work and measured against the ceilings."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import polars as pl

from kernelscope.analysis import Analysis
from kernelscope.ceilings.against import MatchedSteps
from kernelscope.ceilings.architecture import Architecture
from kernelscope.ceilings.assumptions import peak_findings, step_findings
from kernelscope.ceilings.gpus import Peaks
from kernelscope.ceilings.matching import Match, match_step
from kernelscope.ceilings.model import ROOFLINE, PhaseRoofline
from kernelscope.ceilings.what_if import thought_experiments
from kernelscope.ceilings.workload import Workload
from kernelscope.findings import ROOFLINE as ROOFLINE_TOPIC
from kernelscope.findings import Finding
from kernelscope.layers.model import Declined, Fold
from kernelscope.layers.phases import FoldedPhase, fold_phases
from kernelscope.layers.sequences import Sequences
from kernelscope.steps.labels import PREFILL
from kernelscope.summary import Summary
from kernelscope.trace import Trace

_NS_PER_MS = 1e6
_MS_PER_S = 1e3


@dataclass(frozen=True)
class Model:
    """What is measured against.

    Attributes:
        architecture: the model's work.
        peaks: the ceilings of each rank's GPU.
        tensor_parallel: how many GPUs share each layer.
        context_len: mean tokens in the KV cache of a generating request, if the user said so.
    """

    architecture: Architecture
    peaks: Mapping[int, Peaks]
    tensor_parallel: int
    context_len: float | None


@dataclass(frozen=True, eq=False)
class Outcome:
    """One rank and phase: its figures, its rows of the table, and what they rest on."""

    phase: PhaseRoofline
    table: pl.DataFrame
    findings: tuple[Finding, ...]


def measure_phases(
    trace: Trace, found: Analysis, summary: Summary, model: Model
) -> Iterator[Outcome]:
    """One outcome per rank and phase with complete steps.

    Raises:
        ExportError: the file is damaged.
    """
    table = summary.table("step")
    sequences = Sequences.of(found.placed, found.names, table)
    for folded in fold_phases(sequences, found.placed, trace):
        matched = _matched(folded, sequences, table, model)
        if isinstance(matched, Declined):
            yield _declined(folded, matched)
        else:
            yield _measured(folded, matched, model)


def _matched(
    folded: FoldedPhase, sequences: Sequences, table: pl.DataFrame, model: Model
) -> MatchedSteps | Declined:
    """The steps of a phase that can be matched, or why the usual one cannot."""
    if isinstance(folded.usual, Declined):
        return folded.usual
    architecture = model.architecture.only(folded.key[1])
    outcomes = {
        sequence: _match(folded, sequences, sequence, fold, architecture)
        for sequence, fold in folded.folds.items()
    }
    matches = {key: one for key, one in outcomes.items() if isinstance(one, Match)}
    if not matches:
        return next(one for one in outcomes.values() if isinstance(one, Declined))
    steps = folded.steps.filter(pl.col("sequence").is_in(list(matches))).join(
        table.drop("kernels"), on=["rank", "step"], how="left", maintain_order="left", suffix="_2"
    )
    workload = Workload.of(steps, model.context_len)
    if workload is None:
        return Declined("the labels of the steps do not say how many tokens they have")
    peaks = model.peaks[folded.key[0]]
    return MatchedSteps(folded.key, steps, matches, workload, sequences, peaks)


def _match(
    folded: FoldedPhase,
    sequences: Sequences,
    sequence: int,
    fold: Fold,
    architecture: Architecture,
) -> Match | Declined:
    step = sequences.steps.row(folded.row_of(sequence), named=True)
    return match_step(sequences.line(step["first"], step["kernels"]), fold, architecture)


def _declined(folded: FoldedPhase, why: Declined) -> Outcome:
    rank, phase = folded.key
    message = f"{phase} steps of rank {rank} have no roofline: {why.reason}."
    return Outcome(
        PhaseRoofline(rank, phase, 0, why.reason),
        pl.DataFrame(schema=dict(ROOFLINE)),
        (Finding(ROOFLINE_TOPIC, "warning", message),),
    )


def _measured(folded: FoldedPhase, steps: MatchedSteps, model: Model) -> Outcome:
    rows = steps.table()
    phase = _figures(steps, rows)
    findings = [
        *peak_findings(steps.peaks, [steps]),
        *step_findings(steps, rows, model.tensor_parallel),
    ]
    left = folded.steps.height - steps.steps.height
    if left:
        message = (
            f"{left} of {folded.steps.height} {phase.phase} steps of rank {phase.rank} have other "
            "layers or multiplies than the configuration and are left out."
        )
        findings.append(Finding(ROOFLINE_TOPIC, "warning", message))
    return Outcome(phase, rows, tuple(findings))


def _figures(steps: MatchedSteps, rows: pl.DataFrame) -> PhaseRoofline:
    rank, phase = steps.key
    gemm = rows.filter(pl.col("kind") == "gemm")
    wall = steps.steps["wall_ns"].drop_nulls()
    wall_ms = float(np.median(wall.to_numpy())) / _NS_PER_MS if wall.len() else None
    span_ms = float(steps.steps["span_ns"].to_numpy().mean()) / _NS_PER_MS
    floor_ms = steps.step_floor_ms
    workload = steps.workload
    side = workload.context if phase == PREFILL else workload.generation
    lengths = side.context[side.requests > 0]
    made = float(side.tokens.mean())
    return PhaseRoofline(
        rank=rank,
        phase=phase,
        steps=steps.steps.height,
        tokens_per_step=float(workload.tokens.mean()),
        requests_per_step=float(workload.requests.mean()),
        context_len=None if np.isnan(lengths).any() or not lengths.size else lengths.mean().item(),
        gemm_ms=float(gemm["kernel_ms"].sum()),
        gemm_bytes=float(gemm["bytes"].sum()),
        gemm_floor_ms=float(gemm["floor_ms"].sum()),
        other_ms=float(steps.times_ms[-1]),
        kernel_ms=float(steps.times_ms.sum()),
        wall_ms=wall_ms,
        floor_ms=floor_ms,
        tokens_per_s_at_floor=made / floor_ms * _MS_PER_S if made and floor_ms else None,
        what_if=tuple(thought_experiments(steps, rows, span_ms if wall_ms is None else wall_ms)),
    )
