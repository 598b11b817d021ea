"""vLLM's step labels: what an NVTX range says about the step that it opens.

Two forms are written by ``vllm/v1/worker/gpu_worker.py``::

    execute_context_<requests>(<tokens>)_generation_<requests>(<tokens>)
    execute_<total>_context_<requests>(sq<a>sk<b>sqsq<c>sqsk<d>)_generation_<requests>(...)

The second, from vLLM 0.26 on, gives sums over requests: of query lengths (``sq``, the scheduled
tokens), key lengths (``sk``), their squares and products. "Context" requests have no output
token yet; a chunk of a long prompt is context too. Anything after the label is ignored.
"""

from __future__ import annotations

import polars as pl

from kernelscope import frames

PREFIX = "execute_"

_COUNTS = r"\((?:sq)?(\d+)(?:sk(\d+)sqsq(\d+)sqsk\d+)?\)"
_LABEL = rf"^execute_(?:\d+_)?context_(\d+){_COUNTS}_generation_(\d+){_COUNTS}"
_GROUPS = (
    "context_requests",
    "context_tokens",
    "context_kv_tokens",
    "context_token_squares",
    "generation_requests",
    "generation_tokens",
    "generation_kv_tokens",
    "generation_token_squares",
)

PREFILL, DECODE, MIXED, EMPTY = "prefill", "decode", "mixed", "empty"


def parse_labels(ranges: pl.DataFrame) -> pl.DataFrame:
    """The steps among NVTX ranges.

    Args:
        ranges: NVTX ranges (:data:`kernelscope.frames.RANGES`).

    Returns:
        One row per range that is a step label (:data:`kernelscope.frames.STEPS`), in order of
        thread and start.
    """
    fields = pl.col("label").str.extract_groups(_LABEL).struct.rename_fields(_GROUPS)
    parsed = (
        ranges.with_columns(fields.alias("fields"))
        .unnest("fields")
        .with_columns(pl.col(_GROUPS).cast(pl.Int64, strict=False))
        .drop_nulls(["context_requests", "context_tokens", "generation_requests"])
        .drop_nulls("generation_tokens")
        .sort("thread", "start_ns", maintain_order=True)
        .with_columns(_phase().alias("phase"))
        .with_row_index("step")
    )
    parsed = parsed.rename({"end_ns": "range_end_ns"})
    return parsed.select(pl.col(name).cast(dtype) for name, dtype in frames.STEPS.items())


def _phase() -> pl.Expr:
    """Only context: prefill; only generation: decode; both: mixed; neither: empty."""
    context = pl.col("context_requests") > 0
    generation = pl.col("generation_requests") > 0
    return (
        pl.when(context & generation)
        .then(pl.lit(MIXED))
        .when(context)
        .then(pl.lit(PREFILL))
        .when(generation)
        .then(pl.lit(DECODE))
        .otherwise(pl.lit(EMPTY))
    )
