"""Whether per-step samples of two runs differ by more than steps of one run do."""

from __future__ import annotations

from dataclasses import dataclass
from math import comb, sqrt

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]

_Z = 1.96
"""Quantile of the normal distribution for an interval of 95 %."""
_FEWEST_ORDERS = 40
"""Of two samples in one row; with fewer no interval of 95 % exists (2 of them are extreme)."""
_MOST_SAMPLES = 128
"""Per side; a longer run is thinned to that many quantiles, which shifts nothing."""


@dataclass(frozen=True)
class Shift:
    """By how much the second sample lies above the first, with a 95 % interval (ms).

    ``low_ms`` and ``high_ms`` are null where there are too few steps for an interval.
    """

    ms: float
    low_ms: float | None
    high_ms: float | None

    @property
    def is_significant(self) -> bool | None:
        """Whether the interval leaves out zero; None if there is no interval."""
        if self.low_ms is None or self.high_ms is None:
            return None
        return self.low_ms > 0 or self.high_ms < 0


def find_shift(before: Floats, after: Floats) -> Shift | None:
    """The Hodges-Lehmann shift of two samples, and the interval of the rank-sum test.

    It is the median of all differences between a step of one run and a step of the other, so
    that single slow steps do not move it.

    Args:
        before: milliseconds per step, shape (steps,).
        after: the same of the other run.

    Returns:
        None if a side has no step.
    """
    n, m = before.size, after.size
    if not n or not m:
        return None
    differences = np.subtract.outer(_thinned(after), _thinned(before)).ravel()
    estimate = float(np.median(differences))
    if comb(min(n + m, 100), min(n, m, 50)) < _FEWEST_ORDERS:
        return Shift(estimate, None, None)
    half_width = _Z * sqrt((n + m + 1) / (12 * n * m))
    low, high = np.quantile(
        differences,
        (max(0.5 - half_width, 0.0), min(0.5 + half_width, 1.0)),
        method="inverted_cdf",
    )
    return Shift(estimate, float(low), float(high))


def _thinned(sample: Floats) -> Floats:
    if sample.size <= _MOST_SAMPLES:
        return sample
    return np.quantile(sample, (np.arange(_MOST_SAMPLES) + 0.5) / _MOST_SAMPLES)
