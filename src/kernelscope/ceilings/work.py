"""What one kernel, or a few together, must compute: bytes to move and operations to do.

Every count is the least that the mathematics needs: each operand moves once. Where it comes
from stands at each formula. Arrays have shape (steps,); bytes and FLOP are of one call.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from kernelscope.ceilings.formats import Format
from kernelscope.ceilings.gpus import HALF
from kernelscope.ceilings.workload import Floats, Workload

GEMM, MOE_GEMM = ("gemm", "gemv"), ("moe_gemm",)
BOTH, CONTEXT, GENERATION = "tokens", "context", "generation"
_HALF_BYTES = 2
_BITS_PER_BYTE = 8


@dataclass(frozen=True)
class Experts:
    """A router's choice: ``chosen`` of ``count`` experts for each token."""

    count: int
    chosen: int

    def touched(self, tokens: Floats) -> Floats:
        """Expected number of distinct experts that so many tokens are routed to.

        Uniform and independent routing: an expert is missed by one token with probability
        1 - k/E, so E (1 - (1 - k/E)^T) are hit.
        """
        missed = (1 - self.chosen / self.count) ** tokens
        return np.asarray(self.count * (1 - missed))


@dataclass(frozen=True)
class Multiply:
    """A matrix multiply (rows x k) (k x n) with weights, as one GPU computes it.

    Attributes:
        name: of the module, as vLLM fuses it.
        n: columns of the result.
        k: what is summed over.
        format: of the weights.
        rows: which of the workload's tokens are its rows (:meth:`Workload.rows`).
        batch: independent multiplies in one call, each with its own n, k and weights.
        experts: whose matrices these are, if there are many; ``n`` and ``k`` are of one.
    """

    name: str
    n: int
    k: int
    format: Format
    rows: str = BOTH
    batch: int = 1
    experts: Experts | None = None

    kind = "gemm"

    @property
    def categories(self) -> tuple[str, ...]:
        """Of the kernels that do it."""
        return MOE_GEMM if self.experts else GEMM

    @property
    def compute(self) -> str:
        """The precision whose peak applies."""
        return self.format.compute

    @property
    def weights(self) -> int:
        """How many there are, all experts included."""
        return self.n * self.k * self.batch * (self.experts.count if self.experts else 1)

    def weight_bytes(self, workload: Workload) -> Floats:
        """Weights with their scales; of experts those that the tokens are expected to touch."""
        one = self.n * self.k * self.batch * self.format.bytes_per_weight
        rows = workload.rows(self.rows)
        if self.experts is None:
            return np.where(rows > 0, one, 0.0)
        return one * self.experts.touched(rows)

    def bytes(self, workload: Workload) -> Floats:
        """Weights, input and output, each once; the output has 16 bits."""
        each = self.k * self.format.bytes_per_activation + self.n * _HALF_BYTES
        return self.weight_bytes(workload) + self._rows(workload) * each * self.batch

    def flops(self, workload: Workload) -> Floats:
        """2 n k for every row: a multiply and an add."""
        return 2.0 * self.n * self.k * self.batch * self._rows(workload)

    def _rows(self, workload: Workload) -> Floats:
        return workload.rows(self.rows) * (self.experts.chosen if self.experts else 1)


@dataclass(frozen=True)
class Attention:
    """Softmax attention over the KV cache.

    Attributes:
        heads: query heads.
        key_dim: length of a query and a key.
        value_dim: length of a value.
        cached: elements that the cache has per token, over all heads.
        cache_bits: of such an element.
        window: how many keys a query sees at most.
        rows: whose attention it is: both sides, "context" or "generation".
    """

    heads: int
    key_dim: int
    value_dim: int
    cached: int
    cache_bits: int = 16
    window: int | None = None
    rows: str = BOTH

    kind = "attention"
    categories = ("attention", "attention_combine")
    compute = HALF

    @property
    def name(self) -> str:
        """With the window, if there is one."""
        part = "" if self.rows == BOTH else f" ({self.rows})"
        return f"attention{part}" + (f" (window {self.window})" if self.window else "")

    def weight_bytes(self, workload: Workload) -> Floats:
        """It has none."""
        return np.zeros_like(workload.tokens)

    def bytes(self, workload: Workload) -> Floats:
        """Keys and values once for each request, queries and results of 16 bits."""
        keys, _ = self._attended(workload)
        each = self.heads * (self.key_dim + self.value_dim) * _HALF_BYTES
        rows = workload.rows(self.rows) * each
        return keys * self.cached * self.cache_bits / _BITS_PER_BYTE + rows

    def flops(self, workload: Workload) -> Floats:
        """2 (d_k + d_v) for every head and pair: the score, and the weighted value."""
        _, pairs = self._attended(workload)
        return 2.0 * self.heads * (self.key_dim + self.value_dim) * pairs

    def _attended(self, workload: Workload) -> tuple[Floats, Floats]:
        sides = [
            side
            for name, side in ((CONTEXT, workload.context), (GENERATION, workload.generation))
            if self.rows in (BOTH, name)
        ]
        both = [side.attended(self.window) for side in sides]
        keys, pairs = zip(*both, strict=True)
        return np.sum(keys, axis=0), np.sum(pairs, axis=0)


@dataclass(frozen=True)
class DeltaRule:
    """The gated delta rule of linear attention: a matrix per head and request is the state.

    Attributes:
        key_heads: heads of queries and keys.
        heads: heads of values, each with a state of key_dim x value_dim.
        key_dim: length of a query and a key.
        value_dim: length of a value.
        state_bits: of an element of the state.
    """

    key_heads: int
    heads: int
    key_dim: int
    value_dim: int
    state_bits: int

    name = "gated delta rule"
    kind = "recurrence"
    categories = ("linear_attention",)
    compute = HALF

    def weight_bytes(self, workload: Workload) -> Floats:
        """It has none."""
        return np.zeros_like(workload.tokens)

    def bytes(self, workload: Workload) -> Floats:
        """The state read and written once per request; queries, keys, values and results."""
        state = self.heads * self.key_dim * self.value_dim * self.state_bits / _BITS_PER_BYTE
        each = 2 * self.key_heads * self.key_dim + 2 * self.heads * self.value_dim
        return 2 * state * workload.requests + each * _HALF_BYTES * workload.tokens

    def flops(self, workload: Workload) -> Floats:
        """7 for every element of the state and token, token by token.

        Decay (1), value read at the key (2), rank-1 update (2), value read at the query (2);
        Yang et al., Gated Delta Networks, eq. 10. Chunked kernels of prompts do more.
        """
        return 7.0 * self.heads * self.key_dim * self.value_dim * workload.tokens


@dataclass(frozen=True)
class Convolution:
    """The short causal convolution before linear attention, over the last ``width`` tokens."""

    channels: int
    width: int

    name = "causal convolution"
    kind = "convolution"
    categories = ("conv",)
    compute = HALF

    def weight_bytes(self, workload: Workload) -> Floats:
        """Too few to count."""
        return np.zeros_like(workload.tokens)

    def bytes(self, workload: Workload) -> Floats:
        """The window of each request read and written; input and output."""
        state = self.channels * (self.width - 1) * _HALF_BYTES
        return 2 * state * workload.requests + 2 * self.channels * _HALF_BYTES * workload.tokens

    def flops(self, workload: Workload) -> Floats:
        """2 for every tap, channel and token."""
        return 2.0 * self.width * self.channels * workload.tokens


Work = Multiply | Attention | DeltaRule | Convolution
