"""Facts of a run that neither its trace nor the model's configuration states."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from kernelscope.ceilings.formats import formats
from kernelscope.ceilings.quantization import Quantization
from kernelscope.errors import ConfigError

CACHE_BITS = {"auto": None, "bf16": 16, "fp8": 8}
"""What the KV cache may be kept in -> bits of an element."""


@dataclass(frozen=True)
class RunFacts:
    """Facts of a run that neither its trace nor the model's configuration states.

    Attributes:
        tensor_parallel: how many GPUs share each layer.
        quantization: a format of the weights in place of the configuration's, as vLLM's
            ``--quantization`` makes it while loading; one of ``formats.toml``.
        kv_cache: what the KV cache is kept in: a key of :data:`CACHE_BITS`; "auto" as the
            configuration says.
        context_len: mean tokens in the KV cache of a generating request.
        bandwidth_gbs: memory bandwidth of each GPU in GB/s.
        peak_tflops: dense tensor-core peak of each GPU in TFLOP/s.

    Raises:
        ConfigError: there is no such format, or a number is not positive.
    """

    tensor_parallel: int = 1
    quantization: str | None = None
    kv_cache: str = "auto"
    context_len: float | None = None
    bandwidth_gbs: float | None = None
    peak_tflops: float | None = None

    def __post_init__(self) -> None:
        for what, value, known in (
            ("quantization", self.quantization, (None, *formats())),
            ("kv_cache", self.kv_cache, tuple(CACHE_BITS)),
        ):
            if value not in known:
                raise ConfigError(
                    f"There is no {what} {value!r}.",
                    hint=f"Use {', '.join(one for one in known if one)}.",
                )
        numbers = ("tensor_parallel", "context_len", "bandwidth_gbs", "peak_tflops")
        for what in numbers:
            value = getattr(self, what)
            if value is not None and not 0 < value < math.inf:
                raise ConfigError(f"{what} must be a number above 0, and is {value!r}.")

    def over(self, quantization: Quantization) -> Quantization:
        """The configuration's formats with what is given laid over them."""
        bits = CACHE_BITS[self.kv_cache]
        return quantization if bits is None else replace(quantization, kv_bits=bits)
