"""What each chart shows, as frames; nothing here knows how it is drawn.

Every function takes tables of a summary (:data:`kernelscope.summary.TABLES`) and gives columns
with units in their names. Names from a trace are cleaned of control characters.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import polars as pl

from kernelscope.errors import ChartError, PhaseNotFound
from kernelscope.step_table import COMPLETE, TRACE
from kernelscope.steps.labels import DECODE, MIXED, PREFILL

Tables = Mapping[str, pl.DataFrame]

MOST_KERNELS = 20_000
"""A picture of more kernels than this shows nothing and takes minutes to open."""

_PHASES = (DECODE, PREFILL, MIXED, TRACE)
_NS_PER_MS = 1e6
_US_PER_MS = 1e3
_CONTROL = r"[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]"
_MOST_COLUMNS, _LEAST_COLUMNS = 64, 16
_STRIP_ROWS = 8
_FEWEST_STEPS = 2


@dataclass(frozen=True)
class Where:
    """The rows of one rank, phase and batch."""

    phase: str
    rank: int
    batch: int | None

    @property
    def told(self) -> str:
        """``decode``, with rank and batch where they say something."""
        rank = f", rank {self.rank}" if self.rank else ""
        batch = f", {self.batch} requests" if self.batch is not None else ""
        return f"{self.phase}{rank}{batch}"

    def rows(self, table: pl.DataFrame) -> pl.DataFrame:
        """The rows of a table that belong here."""
        return table.filter(
            (pl.col("rank") == self.rank)
            & (pl.col("phase") == self.phase)
            & pl.col("batch").eq_missing(pl.lit(self.batch, pl.Int64))
        )


def places(tables: Tables, phase: str | None, rank: int, batch: int | None) -> list[Where]:
    """What there is to draw on a rank: every phase, or the one asked for; decode first.

    Raises:
        PhaseNotFound: there is no complete step of it.
    """
    keys = tables["category"].select("phase", "rank", "batch").unique().rows()
    found = sorted((Where(*key) for key in keys), key=_order)
    chosen = [
        where
        for where in found
        if where.rank == rank and phase in (None, where.phase) and batch in (None, where.batch)
    ]
    if not chosen:
        there_are = ", ".join(where.told for where in found) or "none"
        what = phase or "step"
        raise PhaseNotFound(
            f"There is no complete {what} on rank {rank} to draw.",
            hint=f"Phases with complete steps: {there_are}.",
        )
    return chosen


def _order(where: Where) -> tuple[int, int, int]:
    return where.rank, _PHASES.index(where.phase), where.batch or 0


def shares(tables: Tables, where: Where, by: str) -> pl.DataFrame:
    """Per category or family ``kernels``, ``kernel_ms`` (means per step), ``share``."""
    return where.rows(tables[by]).select(
        pl.col(by).alias("what"), pl.col("kernels_per_step").alias("kernels"), "kernel_ms", "share"
    )


def typical(tables: Tables, where: Where) -> pl.DataFrame:
    """The kernels of the typical step: ``place``, ``kernel``, ``category``, ``start_ms``, ``us``.

    ``step`` is the step's number. In order of start.

    Raises:
        ChartError: there is no such step, or it has more kernels than a picture can show.
    """
    rows = where.rows(tables["typical"])
    if rows.is_empty():
        raise ChartError(
            f"{where.told}: there is no step to show kernel by kernel.",
            hint="Split the trace into steps; see kernelscope summarize --help, --steps-by.",
        )
    if rows.height > MOST_KERNELS:
        raise ChartError(
            f"The typical {where.told} step has {rows.height:,} kernels; a picture can show "
            f"{MOST_KERNELS:,}.",
            hint="Choose a phase with smaller steps with --phase.",
        )
    return rows.select(
        "step",
        "place",
        _clean("short_name").alias("kernel"),
        "category",
        start_ms=pl.col("start_ns") / _NS_PER_MS,
        end_ms=pl.col("end_ns") / _NS_PER_MS,
        us=(pl.col("end_ns") - pl.col("start_ns")) / _NS_PER_MS * _US_PER_MS,
    )


def grid(kernels: pl.DataFrame) -> pl.DataFrame:
    """The typical step with ``column`` and ``row`` of each kernel, in the order of text."""
    columns = min(max(math.ceil(math.sqrt(2 * kernels.height)), _LEAST_COLUMNS), _MOST_COLUMNS)
    place = pl.col("place")
    return kernels.with_columns(column=place % columns, row=place // columns)


@dataclass(frozen=True, eq=False)
class Strip:
    """The typical step on its time line, folded into rows of ``row_ms`` each.

    ``pieces`` has one row per kernel and row that it reaches into: ``row``, ``from_ms`` and
    ``to_ms`` within the row, and ``beside`` for kernels that start while another one runs.
    """

    pieces: pl.DataFrame
    rows: int
    row_ms: float


def strip(kernels: pl.DataFrame) -> Strip:
    """Fold the time line of a step into about eight rows of a round length."""
    span_ms = float(kernels["end_ms"].to_numpy().max(initial=0.0))
    row_ms = _round_up(span_ms / _STRIP_ROWS) if span_ms else 1.0
    running_until = pl.col("end_ms").cum_max().shift(1)
    first, last = ((pl.col(moment) / row_ms).floor() for moment in ("start_ms", "end_ms"))
    pieces = (
        kernels.with_columns(
            beside=(pl.col("start_ms") < running_until).fill_null(value=False),
            row=pl.int_ranges(first.cast(pl.Int64), last.cast(pl.Int64) + 1),
        )
        .explode("row")
        .with_columns(
            from_ms=pl.max_horizontal(pl.col("start_ms") - pl.col("row") * row_ms, 0.0),
            to_ms=pl.min_horizontal(pl.col("end_ms") - pl.col("row") * row_ms, row_ms),
        )
        .filter((pl.col("to_ms") > pl.col("from_ms")) | (pl.col("us") == 0))
    )
    return Strip(pieces, last_number(pieces["row"]) + 1, row_ms)


def _round_up(value: float) -> float:
    """The next of 1, 2, 5, 10, ... times a power of ten."""
    unit = 10.0 ** math.floor(math.log10(value))
    return float(next(unit * step for step in (1, 2, 5, 10) if unit * step >= value * (1 - 1e-9)))


def layers(tables: Tables, where: Where) -> pl.DataFrame:
    """Columns ``layer``, ``kind``, ``family``, ``kernels``, ``kernel_ms`` (means per step).

    In launch order; the parts before and behind the layers carry their names as ``layer``.

    Raises:
        ChartError: layers were not looked for, or the steps have none.
    """
    if "layer_family" not in tables:
        raise ChartError(
            "The summary was made without layers.",
            hint="Make it with summarize(trace, layers=True).",
        )
    mine = (pl.col("rank") == where.rank) & (pl.col("phase") == where.phase)
    rows = tables["layer_family"].filter(mine)
    if rows.is_empty():
        raise ChartError(
            f"No layers are found in {where.told} steps.",
            hint="kernelscope summarize TRACE --by layer says why.",
        )
    return rows.select(
        layer=pl.coalesce(pl.col("layer_index").cast(pl.String), pl.col("layer_kind")),
        kind=pl.coalesce(_clean("layer_name"), pl.col("layer_kind")),
        family="family",
        kernels="kernels_per_step",
        kernel_ms="kernel_ms",
    )


@dataclass(frozen=True, eq=False)
class StepTimes:
    """The complete steps of a phase.

    ``steps`` has ``step``, ``ms`` and the number of ``kernels``; ``percentiles`` has ``what`` and
    ``ms``, empty for a single step. ``measure`` says what the time is.
    """

    steps: pl.DataFrame
    percentiles: pl.DataFrame
    measure: str


def steps(tables: Tables, where: Where) -> StepTimes:
    """Wall time of each complete step; span where no step is followed by another."""
    complete = where.rows(tables["step"]).filter(pl.col("status") == COMPLETE)
    has_wall = complete["wall_ns"].count() > 0
    column, measure = (
        ("wall_ns", "start to start") if has_wall else ("span_ns", "first to last kernel")
    )
    times = (
        complete.select("step", (pl.col(column) / _NS_PER_MS).alias("ms"), "kernels")
        .drop_nulls("ms")
        .sort("step")
    )
    told = (("p10", 0.1), ("median", 0.5), ("p90", 0.9)) if times.height >= _FEWEST_STEPS else ()
    values = [times["ms"].quantile(at, "linear") for _, at in told]
    percentiles = pl.DataFrame(
        {"what": [name for name, _ in told], "ms": values},
        schema={"what": pl.String, "ms": pl.Float64},
    )
    return StepTimes(times, percentiles, measure)


def roofline(table: pl.DataFrame) -> pl.DataFrame:
    """Per piece of work ``kind``, ``bound``, ``flop_per_byte``, ``tflops``, ``kernel_ms``.

    Work without bytes, operations or time has no place in the plane.
    """
    reach = (pl.col("bytes") > 0) & (pl.col("flops") > 0) & (pl.col("kernel_ms") > 0)
    return table.filter(reach).select(
        _clean("name").alias("work"),
        "kind",
        "bound",
        flop_per_byte=pl.col("flops") / pl.col("bytes"),
        tflops=pl.col("flops_per_s") / 1e12,
        kernel_ms="kernel_ms",
        of_peak="of_peak",
    )


def last_number(numbers: pl.Series) -> int:
    """The largest of whole numbers, or 0 where there are none."""
    return int(numbers.to_numpy().max(initial=0))


def _clean(column: str) -> pl.Expr:
    return pl.col(column).str.replace_all(_CONTROL, "\N{REPLACEMENT CHARACTER}")
