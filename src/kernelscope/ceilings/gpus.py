"""What a GPU can do at most: memory bandwidth and tensor-core peak."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache
from importlib import resources
from typing import Any

from kernelscope.errors import UnknownGpu
from kernelscope.trace import Gpu

HALF = "bf16"
"""The precision that every GPU here has; what has no peak of its own is multiplied in it."""

_GIGA, _TERA = 1e9, 1e12
FROM_EXPORT, FROM_DATASHEET, FROM_USER = "the export", "the datasheet", "the user"


@dataclass(frozen=True)
class Peaks:
    """The ceilings of one GPU.

    Attributes:
        gpu: its name.
        bandwidth_bytes_per_s: of its memory.
        flops_per_s: dense tensor-core peak by precision ("bf16", "fp8", "int8", "fp4").
        bandwidth_source: :data:`FROM_EXPORT`, :data:`FROM_DATASHEET` or :data:`FROM_USER`.
        compute_source: the document, or :data:`FROM_USER`.
    """

    gpu: str
    bandwidth_bytes_per_s: float
    flops_per_s: Mapping[str, float]
    bandwidth_source: str
    compute_source: str

    def compute(self, precision: str) -> float:
        """FLOP/s in that precision; of 16 bits where the GPU does not have it."""
        return self.flops_per_s.get(precision, self.flops_per_s[HALF])

    def ridge(self, precision: str = HALF) -> float:
        """FLOP per byte from which on compute is what limits."""
        return self.compute(precision) / self.bandwidth_bytes_per_s


def find_peaks(
    gpu: Gpu | None, *, bandwidth_gbs: float | None = None, peak_tflops: float | None = None
) -> Peaks:
    """The ceilings of a GPU, from the export, the table of datasheets, and the user.

    Args:
        gpu: as the capture recorded it.
        bandwidth_gbs: memory bandwidth in GB/s (1e9 bytes), in place of the known one.
        peak_tflops: dense peak in TFLOP/s for every precision, in place of the known ones.

    Raises:
        UnknownGpu: something is neither known nor given.
    """
    name = gpu.name if gpu else "unknown GPU"
    sheet = _datasheet(name)
    known = sheet or Peaks(name, 0.0, {}, "", "")
    if gpu and gpu.memory_bandwidth_bytes_per_s:
        known = replace(
            known,
            bandwidth_bytes_per_s=float(gpu.memory_bandwidth_bytes_per_s),
            bandwidth_source=FROM_EXPORT,
        )
    if bandwidth_gbs is not None:
        known = replace(
            known, bandwidth_bytes_per_s=bandwidth_gbs * _GIGA, bandwidth_source=FROM_USER
        )
    if peak_tflops is not None:
        known = replace(known, flops_per_s={HALF: peak_tflops * _TERA}, compute_source=FROM_USER)
    _check(known)
    return known


def _check(peaks: Peaks) -> None:
    lacks = []
    if not peaks.flops_per_s:
        lacks.append(("compute peak", "--peak-tflops N (dense TFLOP/s of the datasheet)"))
    if peaks.bandwidth_bytes_per_s <= 0:
        lacks.append(("memory bandwidth", "--bandwidth-gbs N (GB/s of the datasheet)"))
    if lacks:
        raise UnknownGpu(
            f"The {' and '.join(what for what, _ in lacks)} of {peaks.gpu!r} is not known.",
            hint=f"Give {' and '.join(option for _, option in lacks)}.",
        )


def _datasheet(name: str) -> Peaks | None:
    for entry in _table():
        if re.fullmatch(entry["name"], name):
            return Peaks(
                name,
                entry["bandwidth_gbs"] * _GIGA,
                {precision: value * _TERA for precision, value in entry["tflops"].items()},
                FROM_DATASHEET,
                entry["source"],
            )
    return None


@cache
def _table() -> tuple[dict[str, Any], ...]:
    text = resources.files(__package__).joinpath("gpus.toml").read_text("utf-8")
    return tuple(tomllib.loads(text)["gpu"])
