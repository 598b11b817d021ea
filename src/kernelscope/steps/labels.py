"""Step labels: what an engine's NVTX range says about the step that it opens.

The engines' grammars are data (:data:`ENGINES`). vLLM's ``gpu_worker.py`` writes two forms::

    execute_context_<requests>(<tokens>)_generation_<requests>(<tokens>)
    execute_<total>_context_<requests>(sq<a>sk<b>sqsq<c>sqsk<d>)_generation_<requests>(...)

The second, from vLLM 0.26 on, gives sums over requests: of query lengths (``sq``, the scheduled
tokens), key lengths (``sk``), their squares and products. "Context" requests have no output
token yet; a chunk of a long prompt is context too. TensorRT-LLM's ``py_executor.py`` writes::

    [Executor] _forward_step <number>: <n> ctx reqs, <n> ctx tokens, <n> gen reqs

(older versions without the number, or without tokens), and SGLang's ``build_step_span_name``::

    step[EXTEND bs=<requests> toks=<tokens> ...]   step[DECODE bs=<requests> ...]

What a label does not say is null. Anything after a label is ignored.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import polars as pl

from kernelscope import frames
from kernelscope.trace import Trace

PREFILL, DECODE, MIXED, EMPTY = "prefill", "decode", "mixed", "empty"

_COUNT_COLUMNS = (
    "context_requests",
    "context_tokens",
    "context_kv_tokens",
    "generation_requests",
    "generation_tokens",
    "generation_kv_tokens",
    "generation_token_squares",
)


@dataclass(frozen=True)
class Form:
    """One form of an engine's labels.

    Attributes:
        pattern: a regular expression; its named groups, at least one, are count columns of
            :data:`kernelscope.frames.STEPS`; others are ignored.
        required: groups without which (or with absurd numbers in which) it is no label.
        known: counts that the form implies.
        phase: the phase where the counts cannot tell.
    """

    pattern: str
    required: tuple[str, ...]
    known: Mapping[str, int] = field(default_factory=dict)
    phase: str = EMPTY


@dataclass(frozen=True)
class Engine:
    """An inference engine and how its labels look: what they begin with, and their forms."""

    name: str
    prefix: str
    forms: tuple[Form, ...]


def _vllm_counts(side: str) -> str:
    """Requests and tokens of one side, and the detailed form's further sums."""
    return (
        rf"(?P<{side}_requests>\d+)\((?:sq)?(?P<{side}_tokens>\d+)"
        rf"(?:sk(?P<{side}_kv_tokens>\d+)sqsq(?P<{side}_token_squares>\d+)sqsk\d+)?\)"
    )


_NO_CONTEXT = {"context_requests": 0, "context_tokens": 0}
_NO_GENERATION = {"generation_requests": 0, "generation_tokens": 0}
_SGLANG_DETAIL = (
    r"(?: .*?\bg_sqsq=(?P<generation_token_squares>\d+))?"
    r"(?: .*?\bg_sk=(?P<generation_kv_tokens>\d+))?"
)

VLLM = Engine(
    "vLLM",
    "execute_",
    (
        Form(
            rf"^execute_(?:\d+_)?context_{_vllm_counts('context')}"
            rf"_generation_{_vllm_counts('generation')}",
            ("context_requests", "context_tokens", "generation_requests", "generation_tokens"),
        ),
    ),
)
ENGINES = (
    VLLM,
    Engine(
        "TensorRT-LLM",
        "[Executor] _forward_step",
        (
            Form(
                r"^\[Executor\] _forward_step(?: \d+)?: (?P<context_requests>\d+) ctx reqs,"
                r"(?: (?P<context_tokens>\d+) ctx tokens,)? (?P<generation_requests>\d+) gen reqs",
                ("context_requests", "generation_requests"),
            ),
        ),
    ),
    Engine(
        "SGLang",
        "step[",
        (
            # A draft model's own passes (DRAFT_EXTEND) are parts of the step around them.
            Form(
                rf"^step\[(?:DECODE|TARGET_VERIFY) bs=(?P<generation_requests>\d+){_SGLANG_DETAIL}",
                ("generation_requests",),
                _NO_CONTEXT,
            ),
            Form(
                r"^step\[(?:EXTEND|SPLIT_PREFILL) bs=(?P<context_requests>\d+)"
                r"(?: toks=(?P<context_tokens>\d+))?(?: .*?\bc_sk=(?P<context_kv_tokens>\d+))?",
                ("context_requests",),
                _NO_GENERATION,
            ),
            Form(
                r"^step\[MIXED bs=\d+(?: c=(?P<context_requests>\d+) g=(?P<generation_requests>\d+)"
                r" c_sq=(?P<context_tokens>\d+) c_sk=(?P<context_kv_tokens>\d+)"
                r" .*?g_sq=(?P<generation_tokens>\d+) g_sk=(?P<generation_kv_tokens>\d+)"
                r" g_sqsq=(?P<generation_token_squares>\d+))?",
                (),
                phase=MIXED,
            ),
            Form(r"^step\[(?P<mode>IDLE)\b", (), {**_NO_CONTEXT, **_NO_GENERATION}),
        ),
    ),
)
"""Whose labels are known, in order: where several engines' labels occur, the first wins."""


def find_labels(trace: Trace) -> tuple[str, pl.DataFrame] | None:
    """The engine whose labels a trace holds, and its steps; None without any label."""
    for engine in ENGINES:
        steps = parse_labels(trace.find_ranges(engine.prefix), engine)
        if not steps.is_empty():
            return engine.name, steps
    return None


def parse_labels(ranges: pl.DataFrame, engine: Engine = VLLM) -> pl.DataFrame:
    """The steps among NVTX ranges.

    Args:
        ranges: NVTX ranges (:data:`kernelscope.frames.RANGES`).
        engine: whose labels to look for.

    Returns:
        One row per range that is a step label (:data:`kernelscope.frames.STEPS`), in order of
        thread and start.
    """
    return (
        pl.concat([_parse_form(ranges, form) for form in engine.forms])
        .sort("thread", "start_ns", maintain_order=True)
        .with_row_index("step")
        .rename({"end_ns": "range_end_ns"})
        .select(pl.col(name).cast(dtype) for name, dtype in frames.STEPS.items())
    )


def _parse_form(ranges: pl.DataFrame, form: Form) -> pl.DataFrame:
    """The ranges whose label has this form, with their counts and phase."""
    parsed = ranges.filter(pl.col("label").str.contains(form.pattern)).with_columns(
        pl.col("label").str.extract_groups(form.pattern).alias("groups")
    )
    given = [name for name in _COUNT_COLUMNS if f"(?P<{name}>" in form.pattern]
    counts = {
        name: pl.col("groups").struct.field(name).cast(pl.Int64, strict=False)
        if name in given
        else pl.lit(form.known.get(name), pl.Int64)
        for name in _COUNT_COLUMNS
    }
    return (
        parsed.with_columns(**counts)
        .drop("groups")
        .drop_nulls(list(form.required) or "start_ns")
        .with_columns(_phase(form.phase).alias("phase"))
    )


def _phase(otherwise: str) -> pl.Expr:
    """Only context: prefill; only generation: decode; both: mixed; neither, or not known."""
    context = pl.col("context_requests") > 0
    generation = pl.col("generation_requests") > 0
    return (
        pl.when(context & generation)
        .then(pl.lit(MIXED))
        .when(context)
        .then(pl.lit(PREFILL))
        .when(generation)
        .then(pl.lit(DECODE))
        .otherwise(pl.lit(otherwise))
    )
