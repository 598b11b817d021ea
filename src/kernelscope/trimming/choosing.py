"""Which steps are kept, and what of a trace belongs to them."""

from __future__ import annotations

from collections.abc import Container
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import polars as pl

from kernelscope.errors import PhaseNotFound, StepError
from kernelscope.intervals import run_starts
from kernelscope.measure import Measured, measure
from kernelscope.placement import place
from kernelscope.step_table import COMPLETE, build_step_table
from kernelscope.steps import NO_STEPS, Steps, split_steps
from kernelscope.steps.windows import NO_LAUNCH_CALL
from kernelscope.trace import KeptSteps, Trace

_NS_PER_MS = 1e6
Bools = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class Request:
    """What someone asked for; what is None is not asked for, and all conditions must hold.

    ``start_ms`` and ``end_ms`` count from the first kernel of the first step, as the table of
    steps does.
    """

    steps: Container[int] | None = None
    phase: str | None = None
    start_ms: float | None = None
    end_ms: float | None = None

    @property
    def is_everything(self) -> bool:
        """Whether nothing was asked for, so that the whole trace is kept."""
        return (self.steps, self.phase, self.start_ms, self.end_ms) == (None, None, None, None)


@dataclass(frozen=True, eq=False)
class Chosen:
    """The part of a trace that is kept.

    Attributes:
        steps: numbers of the kept steps, ascending.
        runs: the kept API calls, as runs of neighbours among the calls of a process:
            ``process`` (nsys's id without its thread bits), ``first``, ``last`` (correlation ids).
        spans: when the kept steps and their work ran: ``start_ns``, ``end_ns``, disjoint, sorted.
        other_labels: the step labels that are not kept: ``thread``, ``start_ns``.
        kept: what the output could not tell about its steps; None where there are no steps.
        has_strays: whether some work has no call that launched it.
    """

    steps: tuple[int, ...]
    runs: pl.DataFrame
    spans: pl.DataFrame
    other_labels: pl.DataFrame
    kept: KeptSteps | None
    has_strays: bool


def choose_part(trace: Trace, request: Request) -> Chosen:
    """Find the steps of a trace and what belongs to those that are asked for.

    Raises:
        StepError: no step, or nothing at all, is as asked for.
        PhaseNotFound: there is no step of that phase.
        ExportError: the file is damaged.
    """
    steps = split_steps(trace)
    placed = place(trace, steps)
    measured = measure(trace, steps, placed)
    table = build_step_table(trace.info, steps, measured)
    if steps.method == NO_STEPS:
        return _choose_time(steps, request, _origin(placed.work["start_ns"]))
    numbers = _kept_steps(trace, table, request)
    calls = np.isin(steps.launches["step"].to_numpy(), numbers)
    if request.start_ms is not None or request.end_ms is not None:
        calls |= _calls_between(steps, request, _origin(table["first_ns"]))
    is_kept = pl.col("step").is_in(numbers)
    return Chosen(
        steps=tuple(numbers),
        runs=_runs(steps.launches, calls),
        spans=_spans(table.filter(is_kept)),
        other_labels=steps.frame.filter(is_kept.not_()).select("thread", "start_ns"),
        kept=_what_the_whole_tells(table, numbers, steps.method),
        has_strays=_has_strays(measured),
    )


def _what_the_whole_tells(table: pl.DataFrame, numbers: list[int], method: str) -> KeptSteps:
    """Status and following step of the kept steps, by the numbers that they will have."""
    new = {step: place for place, step in enumerate(numbers)}
    set_aside = table.filter(pl.col("step").is_in(numbers) & (pl.col("status") != COMPLETE))
    return KeptSteps(
        method=method,
        steps=len(numbers),
        status={new[step]: why for step, why in set_aside.select("step", "status").iter_rows()},
        unfollowed=frozenset(new[step] for step in _unfollowed(table, numbers)),
    )


def _has_strays(measured: Measured) -> bool:
    """Whether some work has no launching call."""
    steps = pl.concat([measured.by_step["step"], measured.memory["step"]])
    return bool((steps == NO_LAUNCH_CALL).any())


def _kept_steps(trace: Trace, table: pl.DataFrame, request: Request) -> list[int]:
    wanted = table
    if request.steps is not None:
        numbers = [step for step in table["step"].unique().sort() if step in request.steps]
        wanted = wanted.filter(pl.col("step").is_in(numbers))
        if wanted.is_empty():
            raise StepError(
                f"{trace.info.path} has no such step: its steps are numbered 0 to "
                f"{table['step'].to_list()[-1]}.",
                hint="List them with: kernelscope steps TRACE",
            )
    if request.phase is not None:
        wanted = wanted.filter(pl.col("phase") == request.phase)
        if wanted.is_empty():
            raise PhaseNotFound(
                f"{trace.info.path} has no {request.phase} step among those asked for.",
                hint=f"Phases: {', '.join(table['phase'].unique().sort())}.",
            )
    wanted = wanted.filter(_is_between(pl.col("first_ns"), request, _origin(table["first_ns"])))
    if wanted.is_empty():
        raise StepError(
            f"No step of {trace.info.path} begins in that time.",
            hint="Their starts are in the table of: kernelscope steps TRACE",
        )
    return wanted["step"].unique().sort().to_list()


def _choose_time(steps: Steps, request: Request, origin_ns: int) -> Chosen:
    """A part of a trace that has no steps; only its time can be asked for."""
    if request.steps is not None or request.phase is not None:
        raise StepError(
            f"No steps are found: {steps.evidence}.",
            hint="Choose by time with --start and --end, or keep all of it.",
        )
    calls = _calls_between(steps, request, origin_ns)
    if not calls.any():
        raise StepError("Nothing was launched in that time.", hint="Times are in ms.")
    first, last = _bounds(request, origin_ns)
    spans = pl.DataFrame({"start_ns": [first], "end_ns": [last]}, schema=_SPANS)
    nothing = pl.DataFrame(schema={"thread": pl.Int64, "start_ns": pl.Int64})
    return Chosen((), _runs(steps.launches, calls), spans, nothing, None, has_strays=True)


_SPANS = {"start_ns": pl.Int64, "end_ns": pl.Int64}


def _origin(start_ns: pl.Series) -> int:
    """Where milliseconds are counted from."""
    return int(start_ns.min() or 0)  # type: ignore[arg-type]


def _is_between(moment: pl.Expr, request: Request, origin_ns: int) -> pl.Expr:
    """A moment that is not known lies in no time that is asked for."""
    if request.start_ms is None and request.end_ms is None:
        return pl.lit(value=True)
    first, last = _bounds(request, origin_ns)
    return moment.is_between(first, last, closed="left")


def _bounds(request: Request, origin_ns: int) -> tuple[int, int]:
    """The time asked for on the clock of the trace, ns; all of it where nothing is asked."""
    whole = np.iinfo(np.int64)
    first, last = (
        None if ms is None else origin_ns + round(ms * _NS_PER_MS)
        for ms in (request.start_ms, request.end_ms)
    )
    return whole.min if first is None else first, whole.max if last is None else last


def _calls_between(steps: Steps, request: Request, origin_ns: int) -> Bools:
    """Calls in no step that were made in the time asked for; those of steps go with their step."""
    outside = pl.lit(value=True) if steps.method == NO_STEPS else pl.col("step") < 0
    inside = outside & _is_between(pl.col("start_ns"), request, origin_ns)
    return steps.launches.select(inside.alias("inside"))["inside"].to_numpy()


def _runs(launches: pl.DataFrame, is_kept: Bools) -> pl.DataFrame:
    """Calls are sorted by process and id: neighbours that are kept make one run.

    No other call's id lies within a run, so that a look-up by id is exact.
    """
    process = launches["process"].to_numpy() >> 24
    ids = launches["correlation_id"].to_numpy()
    changes = np.zeros(ids.size, np.int64)
    changes[1:] = (is_kept[1:] != is_kept[:-1]) | (process[1:] != process[:-1])
    run = np.cumsum(changes)
    first = run_starts(run)
    last = np.append(first[1:], run.size)[: first.size] - 1
    mine = is_kept[first]
    return pl.DataFrame(
        {"process": process[first][mine], "first": ids[first][mine], "last": ids[last][mine]}
    )


def _spans(table: pl.DataFrame) -> pl.DataFrame:
    """From each step's label to the end of its range or work; those that touch are one."""
    spans = table.select(
        start_ns=pl.min_horizontal("start_ns", "first_ns"),
        end_ns=pl.max_horizontal("start_ns", "range_end_ns", "last_ns"),
    ).sort("start_ns")
    begins = pl.col("start_ns") > pl.col("end_ns").cum_max().shift(1)
    return (
        spans.with_columns(span=begins.fill_null(value=True).cum_sum())
        .group_by("span", maintain_order=True)
        .agg(pl.col("start_ns").min(), pl.col("end_ns").max())
        .drop("span")
    )


def _unfollowed(table: pl.DataFrame, kept: list[int]) -> list[int]:
    """Kept steps whose wall time the output cannot or must not show."""
    work = pl.col("first_ns").is_not_null()
    lane = table.filter(work).sort("rank", "thread", "start_ns", maintain_order=True)
    following = lane.with_columns(next_step=pl.col("step").shift(-1).over("rank", "thread"))
    open_ended = following.filter(
        pl.col("step").is_in(kept)
        & (pl.col("is_pause") | pl.col("next_step").is_in(kept).fill_null(value=False).not_())
    )
    return open_ended["step"].unique().sort().to_list()
