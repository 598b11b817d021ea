"""One row per step: what it did on the GPU, how long it took, and whether it counts.

A step enters the averages of its phase only if it is complete and is what its label says.
Every other step keeps its row, with the reason in ``status``.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

import polars as pl

from kernelscope.measure import Measured
from kernelscope.steps import NO_STEPS, Steps
from kernelscope.steps.labels import DECODE, EMPTY, MIXED
from kernelscope.trace import KeptSteps, TraceInfo

COMPLETE = "complete"
INCOMPLETE = "incomplete"
RECOMPUTE = "recompute"
NO_KERNELS = "no kernels"
EMPTY_STEP = "empty"

NOT_CHOSEN = "not chosen"

REASONS = {
    NOT_CHOSEN: "outside the steps that were asked for",
    INCOMPLETE: "cut by the end of the capture",
    RECOMPUTE: "a preempted request is computed again",
    NO_KERNELS: "no kernel was recorded for it",
    EMPTY_STEP: "the label names no requests",
}
"""Why a step is in no average."""

TRACE = "trace"
"""The phase of a trace without steps, summarized as one unit."""

# More tokens per request than any speculative decoder drafts: prompts are computed again.
_MOST_DRAFT_TOKENS = 16
_RECOMPUTED_TOKENS = 100
_MOST_STEPS = 0.9
# An unfinished range is exported with the end of the capture as its end.
_WINDOW_END_SLACK_NS = 1_000
_PAUSE_FACTOR = 10
_PAUSE_MIN_WALLS = 3

_NOT_KNOWN = ("context_requests", "context_tokens", "generation_requests", "generation_tokens")
_SHAPE = ["rank", "thread", "phase", "context_requests", "context_tokens", "generation_requests"]


def build_step_table(info: TraceInfo, steps: Steps, measured: Measured) -> pl.DataFrame:
    """Steps with their measurements, status and wall time.

    Returns:
        One row per (step, rank), in order of rank and time: the columns of
        :data:`kernelscope.frames.STEPS`, the measurements of
        :class:`kernelscope.measure.Measured` (``by_step``), and ``status``, ``span_ns`` (first
        kernel start to last kernel end), ``wall_ns`` (first kernel start to the next step's
        first kernel start; null where no next step or a pause follows), ``gap_ns`` (idle time
        before the next step's first kernel, at least 0) and ``is_pause`` (whether that gap is a
        pause between requests).
    """
    if steps.method == NO_STEPS:
        return _whole_trace(measured)
    kept = _kept(info, steps)
    on_gpu = measured.by_step.filter(pl.col("step") >= 0)
    table = (
        steps.frame.join(on_gpu, on="step", how="left", maintain_order="left")
        .with_columns(
            pl.col("kernels", "replays", "kernel_ns", "busy_ns", "launch_calls").fill_null(0),
            pl.col("graph_launches", "launch_calls_made").fill_null(0),
            pl.col("rank").fill_null(_rank_of_process(measured.ranks)),
        )
        .sort("rank", "thread", "start_ns", maintain_order=True)
        .pipe(_with_wall, () if kept is None else kept.unfollowed)
    )
    return _with_status(table, info, kept)


def _kept(info: TraceInfo, steps: Steps) -> KeptSteps | None:
    """What a part of a capture knows of its steps, if they are found again as they were."""
    kept = info.derived.kept if info.derived else None
    same = kept is not None and (kept.method, kept.steps) == (steps.method, steps.frame.height)
    return kept if same else None


@dataclass(frozen=True)
class Choice:
    """Which complete steps to average, for those who want a window.

    ``first`` and ``last`` bound the steps by their number in the step table (``last`` is not
    included); ``skip`` leaves out that many complete steps at the beginning of each phase.
    """

    first: int | None = None
    last: int | None = None
    skip: int = 0


def choose(table: pl.DataFrame, choice: Choice) -> pl.DataFrame:
    """The step table with complete steps outside the choice marked as not chosen."""
    number, complete = pl.col("step"), pl.col("status") == COMPLETE
    place = complete.cum_sum().over("rank", "phase")
    inside = place > choice.skip
    if choice.first is not None:
        inside &= number >= choice.first
    if choice.last is not None:
        inside &= number < choice.last
    status = pl.when(complete & inside.not_()).then(pl.lit(NOT_CHOSEN)).otherwise("status")
    return table.with_columns(status=status)


def _rank_of_process(ranks: pl.DataFrame) -> pl.Expr:
    """The first rank of a step's process, for steps without work on any GPU."""
    first = ranks.group_by("process").agg(pl.col("rank").min())
    return pl.col("process").replace_strict(
        first["process"], first["rank"], default=None, return_dtype=pl.UInt16
    )


def _whole_trace(measured: Measured) -> pl.DataFrame:
    """A single row per rank; nothing about steps is known."""
    return measured.by_step.with_columns(
        phase=pl.lit(TRACE),
        status=pl.lit(COMPLETE),
        span_ns=pl.col("last_ns") - pl.col("first_ns"),
        wall_ns=pl.lit(None, pl.Int64),
        gap_ns=pl.lit(None, pl.Int64),
        is_pause=pl.lit(value=False),
        **dict.fromkeys(_NOT_KNOWN, pl.lit(None, pl.Int64)),
    )


def _with_wall(table: pl.DataFrame, unfollowed: Collection[int]) -> pl.DataFrame:
    """Start-to-start times on the GPU, and the pauses among them.

    A pause is a gap ten times as long as a usual step: the engine had nothing to do. It belongs
    to no step. A step whose next one is not in the trace has no such time.
    """
    lane = ["rank", "thread"]
    with_work = table.filter(pl.col("first_ns").is_not_null())
    next_first_ns = pl.when(pl.col("step").is_in(list(unfollowed)).not_()).then(
        pl.col("first_ns").shift(-1).over(lane)
    )
    lasting = with_work.select(
        "step",
        "rank",
        "thread",
        wall_ns=next_first_ns - pl.col("first_ns"),
        gap_ns=(next_first_ns - pl.col("last_ns")).clip(lower_bound=0),
    )
    usual = pl.col("wall_ns").median().over(lane)
    enough = pl.col("wall_ns").count().over(lane) >= _PAUSE_MIN_WALLS
    is_pause = ((pl.col("gap_ns") > _PAUSE_FACTOR * usual) & enough).fill_null(value=False)
    lasting = lasting.with_columns(is_pause=is_pause).with_columns(
        wall_ns=pl.when(pl.col("is_pause")).then(None).otherwise(pl.col("wall_ns"))
    )
    return table.join(
        lasting.drop("thread"), on=["step", "rank"], how="left", maintain_order="left"
    ).with_columns(
        pl.col("is_pause").fill_null(value=False),
        span_ns=pl.col("last_ns") - pl.col("first_ns"),
    )


def _with_status(table: pl.DataFrame, info: TraceInfo, kept: KeptSteps | None) -> pl.DataFrame:
    has_work = (pl.col("kernels") > 0) | (pl.col("replays") > 0)
    if kept is not None:
        known = _known_status(kept)
        # What a file says of itself does not make kernels: a complete step has some.
        is_hollow = (known == COMPLETE) & has_work.not_()
        return table.with_columns(
            status=pl.when(is_hollow).then(pl.lit(NO_KERNELS)).otherwise(known)
        )
    is_last = pl.col("step") == pl.col("step").filter(has_work).max().over("rank", "thread")
    return table.with_columns(
        status=pl.when(pl.col("phase") == EMPTY)
        .then(pl.lit(EMPTY_STEP))
        .when(has_work.not_())
        .then(pl.lit(NO_KERNELS))
        .when(is_last & _is_cut(info))
        .then(pl.lit(INCOMPLETE))
        .when(_is_recompute(table))
        .then(pl.lit(RECOMPUTE))
        .otherwise(pl.lit(COMPLETE))
    )


def _known_status(kept: KeptSteps) -> pl.Expr:
    """The status that a step had in the whole capture."""
    known = {step: status for step, status in kept.status.items() if status in REASONS}
    status = pl.lit(COMPLETE)
    if known:
        given = list(known), list(known.values())
        status = pl.col("step").replace_strict(*given, default=COMPLETE, return_dtype=pl.String)
    return status


def _is_cut(info: TraceInfo) -> pl.Expr:
    """Whether a last step shows that the capture ended within it.

    Its range was never closed, launches of it left no work on the GPU, or it has fewer kernels
    than every other step of the same shape.
    """
    end = pl.lit(info.window_end_ns, pl.Int64)
    is_open = pl.col("range_end_ns").is_null() | (
        (pl.col("range_end_ns") - end).abs() <= _WINDOW_END_SLACK_NS
    )
    lost_launches = pl.col("launch_calls_made") > pl.col("launch_calls").sum().over("step")
    work = pl.col("kernels") + pl.col("replays")
    recorded = pl.when(work > 0).then(work)
    others = recorded.count().over(_SHAPE) - 1
    fewest_other = recorded.bottom_k(2).max().over(_SHAPE)
    is_short = (others > 0) & (work < fewest_other)
    return is_open.fill_null(value=False) | lost_launches | is_short


def _is_recompute(table: pl.DataFrame) -> pl.Expr:
    """Whether generation carries far more tokens than its requests can.

    With the detailed label the sum of squares shows a single long request among many. The plain
    label gives only the total: more than speculative decoding ever schedules per request, or,
    where no step of the run speculates, any step a hundred tokens above one per request.
    """
    is_generation = pl.col("phase").is_in([DECODE, MIXED])
    requests, tokens = pl.col("generation_requests"), pl.col("generation_tokens")
    decode = table.filter(pl.col("phase") == DECODE)
    one_each = decode.select((tokens == requests).mean() >= _MOST_STEPS).item()
    too_many = tokens > _MOST_DRAFT_TOKENS * requests
    unexplained = pl.lit(bool(one_each)) & (tokens - requests >= _RECOMPUTED_TOKENS)
    long_request = pl.col("generation_token_squares") > _MOST_DRAFT_TOKENS**2 * requests
    return is_generation & (too_many | unexplained | long_request.fill_null(value=False))
