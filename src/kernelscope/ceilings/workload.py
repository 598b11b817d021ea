"""What each step had to compute: tokens, requests and context lengths."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import polars as pl

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Side:
    """The prompts of each step, or its generating requests; every array has shape (steps,).

    Attributes:
        requests: how many there are.
        tokens: scheduled in the step, over all of them.
        context: mean length of a request after the step, what is in the KV cache included; NaN
            where that is not known.
    """

    requests: Floats
    tokens: Floats
    context: Floats

    def attended(self, window: int | None) -> tuple[Floats, Floats]:
        """Keys to read, and pairs of query and key to compute; shapes (steps,).

        Queries see what precedes them and themselves: a request with q tokens at the end of K
        has q (K - (q - 1) / 2) pairs, if every key is within the window.
        """
        with np.errstate(invalid="ignore", divide="ignore"):
            queries = np.where(self.requests > 0, self.tokens / self.requests, 0.0)
        seen = self.context - (queries - 1) / 2
        keys = self.context
        if window is not None:
            seen = np.minimum(seen, window)
            keys = np.minimum(keys, window + queries - 1)
        nothing = self.requests == 0
        return (
            np.where(nothing, 0.0, self.requests * keys),
            np.where(nothing, 0.0, self.tokens * seen),
        )


@dataclass(frozen=True, eq=False)
class Workload:
    """The steps of a phase; every array has shape (steps,)."""

    context: Side
    generation: Side

    @classmethod
    def of(cls, steps: pl.DataFrame, context_len: float | None = None) -> Workload | None:
        """What the labels of steps say; None where one does not say how many tokens it has.

        Args:
            steps: rows of the step table.
            context_len: tokens in the KV cache of a generating request, where labels do not say.
        """
        sides = [_side(steps, name) for name in ("context", "generation")]
        if any(side is None for side in sides):
            return None
        context, generation = (side for side in sides if side is not None)
        # A prompt that the label says nothing more of is taken to begin in this step.
        length = np.divide(
            context.tokens,
            context.requests,
            out=np.zeros_like(context.tokens),
            where=context.requests > 0,
        )
        given = np.full_like(length, np.nan if context_len is None else context_len)
        return cls(_with_context(context, length), _with_context(generation, given))

    @property
    def tokens(self) -> Floats:
        """All tokens of each step."""
        return self.context.tokens + self.generation.tokens

    @property
    def requests(self) -> Floats:
        """All requests of each step."""
        return self.context.requests + self.generation.requests

    @property
    def sampled(self) -> Floats:
        """Positions that logits are computed for: the last of a prompt, all that are generated."""
        return self.context.requests + self.generation.tokens

    def rows(self, which: str) -> Floats:
        """Rows of a multiply's input: "tokens", "sampled", "context" or "generation"."""
        if which in ("context", "generation"):
            side: Side = getattr(self, which)
            return side.tokens
        found: Floats = getattr(self, which)
        return found


def _side(steps: pl.DataFrame, name: str) -> Side | None:
    """One side as the label has it; a generating request without a count has one token."""
    columns = [f"{name}_{what}" for what in ("requests", "tokens", "kv_tokens")]
    if not set(columns) <= set(steps.columns):
        return None
    requests, tokens, keys = (steps[column].cast(pl.Float64) for column in columns)
    if name == "generation":
        tokens = tokens.fill_null(requests)
    tokens = pl.select(pl.when(requests == 0).then(0.0).otherwise(tokens)).to_series()
    if requests.has_nulls() or tokens.has_nulls():
        return None
    count = requests.to_numpy()
    with np.errstate(invalid="ignore", divide="ignore"):
        context = keys.fill_null(np.nan).to_numpy() / count
    return Side(count, tokens.to_numpy(), context)


def _with_context(side: Side, otherwise: Floats) -> Side:
    known = np.isfinite(side.context)
    return Side(side.requests, side.tokens, np.where(known, side.context, otherwise))
