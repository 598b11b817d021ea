"""A trace taken apart: steps, kernels in their steps, and what each kernel is."""

from __future__ import annotations

import os
from dataclasses import dataclass

import polars as pl

from kernelscope.classification import classify_names
from kernelscope.context import settle
from kernelscope.inductor_sources import read_inductor_sources
from kernelscope.kernel_names import name_texts
from kernelscope.placement import REPLAY, Placed, place
from kernelscope.rules import RuleTable, load_rules
from kernelscope.rules.tables import CUDA_GRAPH
from kernelscope.steps import Steps, split_steps
from kernelscope.trace import Trace


@dataclass(frozen=True, eq=False)
class Analysis:
    """Kernels with their steps and categories.

    Attributes:
        steps: the steps of the trace.
        placed: every kernel in its step.
        names: one row per number in ``placed.work["name"]``, in that order: ``name``,
            ``short_name``, ``category``, ``family``, ``rule_id`` (null where no rule decided),
            ``method``, ``pair`` (short name of the multiply that a split-K reduction belongs to).
        rules: the table that decided.
    """

    steps: Steps
    placed: Placed
    names: pl.DataFrame
    rules: RuleTable


def analyze(
    trace: Trace,
    *,
    steps: Steps | None = None,
    rules: RuleTable | None = None,
    context: bool = True,
    inductor_cache: str | os.PathLike[str] | None = None,
    streams: bool = False,
) -> Analysis:
    """Find the steps of a trace, put its kernels into them and classify the kernels.

    Args:
        trace: the capture.
        steps: the steps to use; by default those that :func:`kernelscope.split_steps` finds.
        rules: the rule table to use; by default the built-in one.
        context: whether surroundings decide what names cannot.
        inductor_cache: a folder with Inductor's generated sources of the run, if it was kept.
        streams: whether to keep the stream of each kernel.

    Raises:
        ExportError: the file is damaged.
        SourcesNotFound: ``inductor_cache`` holds no generated kernels.
    """
    steps = steps or split_steps(trace)
    rules = rules or load_rules()
    sources = None if inductor_cache is None else _sources(inductor_cache, rules)
    placed = place(trace, steps, streams=streams)
    names = _classified(trace, placed, rules)
    if context:
        placed, names = settle(placed, names, sources)
    else:
        names = names.with_columns(pair=pl.lit(None, pl.Int64))
    return Analysis(steps, placed, _completed(names, rules), rules)


def classify(
    trace: Trace,
    *,
    rules: RuleTable | None = None,
    context: bool = True,
    inductor_cache: str | os.PathLike[str] | None = None,
) -> pl.DataFrame:
    """Every kernel of a trace with its step and what it is.

    Args:
        trace: the capture.
        rules: the rule table to use; by default the built-in one.
        context: whether surroundings decide what names cannot.
        inductor_cache: a folder with Inductor's generated sources of the run, if it was kept.

    Returns:
        One row per kernel, sorted by rank, step and start: ``rank`` (uint16), ``step`` (int32,
        negative outside every step), ``start_ns``, ``end_ns`` (int64), ``name``,
        ``short_name``, ``category``, ``family``, ``rule_id``, ``method``, ``pair`` (strings).

    Raises:
        ExportError: the file is damaged.
    """
    found = analyze(trace, rules=rules, context=context, inductor_cache=inductor_cache)
    work = found.placed.work
    columns = ["name", "short_name", "category", "family", "rule_id", "method", "pair"]
    return (
        work.join(found.placed.groups, on="group", how="left", maintain_order="left")
        .select("rank", "step", "start_ns", "end_ns")
        .with_columns(found.names.select(columns)[work["name"]])
        .sort("rank", "step", "start_ns", maintain_order=True)
    )


def _classified(trace: Trace, placed: Placed, rules: RuleTable) -> pl.DataFrame:
    """What the rules say of each name, in the order of ``placed.name_ids``."""
    ids = pl.Series("id", placed.name_ids, pl.Int64)
    texts = (
        ids.to_frame()
        .join(trace.names(ids.filter(ids != REPLAY)), on="id", how="left", maintain_order="left")
        .select("name", short_name=pl.lit(None, pl.String))
    )
    is_replay = pl.lit(ids == REPLAY)
    return (
        classify_names(texts, rules)
        .with_columns(
            short_name=name_texts(texts)["base"].replace("", None).fill_null(texts["name"])
        )
        .with_columns(
            _instead(is_replay, "CUDA graph replay (not recorded inside)", "name"),
            _instead(is_replay, "CUDA graph replay", "short_name"),
            _instead(is_replay, CUDA_GRAPH, "category"),
            _instead(is_replay, "graph_trace", "method"),
        )
    )


def _sources(folder: str | os.PathLike[str], rules: RuleTable) -> pl.DataFrame:
    """What the run's sources make of each generated kernel (:data:`context.SOURCES`).

    A kernel is classified as if its name had the operations that its source has.
    """
    found = read_inductor_sources(folder)
    kind = pl.col("name").str.extract(r"^triton_([a-z]+)_fused").fill_null("poi")
    spelled = pl.format("triton_{}_fused_{}_0", kind, pl.col("operations"))
    texts = found.select(name=spelled, short_name=pl.lit(None, pl.String))
    return found.select("name", "following").with_columns(
        classify_names(texts, rules)["category"].alias("source")
    )


def _instead(condition: pl.Expr, value: str, column: str) -> pl.Expr:
    return pl.when(condition).then(pl.lit(value)).otherwise(pl.col(column)).alias(column)


def _completed(names: pl.DataFrame, rules: RuleTable) -> pl.DataFrame:
    """Families, and the name of each pair instead of its number."""
    families = {category.name: category.family for category in rules.categories}
    return names.with_columns(
        family=pl.col("category").replace_strict(families, return_dtype=pl.String),
        pair=names["short_name"].gather(names["pair"]),
    )
