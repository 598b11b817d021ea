"""Small numbers for large ids, given out in order of discovery by several threads at once."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, field
from threading import Lock
from typing import Generic, TypeVar

import numpy as np
import numpy.typing as npt

H = TypeVar("H", bound=Hashable)
Int32s = npt.NDArray[np.int32]

_TABLE_SIZE = 1 << 20


@dataclass
class Numbers(Generic[H]):
    """A number from 0 on for each thing seen."""

    number: dict[H, int] = field(default_factory=dict)
    lock: Lock = field(default_factory=Lock)

    def of(self, thing: H) -> int:
        """The number of one thing; a new one for a new thing."""
        with self.lock:
            return self.number.setdefault(thing, len(self.number))


@dataclass
class IdNumbers:
    """Numbers for arrays of int64 ids, by a plain table where ids are small."""

    numbers: Numbers[int] = field(default_factory=Numbers)
    table: Int32s = field(default_factory=lambda: np.full(_TABLE_SIZE, -1, np.int32))

    def of(self, ids: npt.NDArray[np.int64]) -> Int32s:
        """The number of each id; shape (n,), int32."""
        if ids.size == 0:
            return np.zeros(0, np.int32)
        if int(ids.min()) >= 0 and int(ids.max()) < _TABLE_SIZE:
            known = self.table[ids]
            if int(known.min()) >= 0:
                return known
            new = np.unique(ids[known < 0])
            self.table[new] = self._add(new)
            return self.table[ids]
        distinct, which = np.unique(ids, return_inverse=True)
        return self._add(distinct)[which]

    def ids(self) -> npt.NDArray[np.int64]:
        """The id behind each number, in order of number."""
        return np.fromiter(self.numbers.number, np.int64)

    def _add(self, ids: npt.NDArray[np.int64]) -> Int32s:
        return np.array([self.numbers.of(number) for number in ids.tolist()], np.int32)
