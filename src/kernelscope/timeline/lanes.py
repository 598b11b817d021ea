"""The lanes of a timeline: who they belong to, their numbers, and what runs in which."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass

import polars as pl

# Events of one lane must lie side by side or one within the other, so what runs beside other work
# of its stream gets a lane of its own. More at one time than this were never seen.
_MOST_BESIDE = 16
_FIRST_LANE = 1_000_000


@dataclass(frozen=True)
class Lane:
    """One line of the timeline, in a group that viewers show as a process."""

    group: str
    name: str


class Lanes:
    """Numbers for groups and lanes, in the order in which they were asked for."""

    def __init__(self) -> None:
        self._groups: dict[str, int] = {}
        self._lanes: dict[Lane, int] = {}

    def of(self, group: str, name: str) -> tuple[int, int]:
        """(``pid``, ``tid``) of a lane; no two lanes share a ``tid``, and none equals a ``pid``."""
        pid = self._groups.setdefault(group, len(self._groups) + 1)
        lane = self._lanes.setdefault(Lane(group, name), len(self._lanes))
        return pid, _FIRST_LANE + lane

    @property
    def count(self) -> int:
        """How many lanes there are."""
        return len(self._lanes)

    def metadata(self) -> Iterator[str]:
        """The events that name groups and lanes and put them in order."""
        for name, pid in self._groups.items():
            yield _metadata("process_name", pid, 0, {"name": name})
            yield _metadata("process_sort_index", pid, 0, {"sort_index": pid})
        for lane in self._lanes:
            pid, tid = self.of(lane.group, lane.name)
            yield _metadata("thread_name", pid, tid, {"name": lane.name})
            yield _metadata("thread_sort_index", pid, tid, {"sort_index": tid})


def side_by_side(events: pl.DataFrame, *keys: str) -> pl.DataFrame:
    """Events sorted by ``keys`` and start, with ``beside``: 0, or the further lane it needs."""
    rest = events.sort(*keys, "start_ns", "end_ns", maintain_order=True)
    placed = []
    for beside in range(_MOST_BESIDE):
        before_ns = pl.col("end_ns").cum_max().shift(1).over(keys)
        is_free = rest.select((pl.col("start_ns") >= before_ns).fill_null(value=True)).to_series()
        if beside == _MOST_BESIDE - 1:
            is_free = pl.repeat(value=True, n=rest.height, eager=True)
        placed.append(rest.filter(is_free).with_columns(beside=pl.lit(beside, pl.Int32)))
        rest = rest.filter(~is_free)
        if rest.is_empty():
            break
    return pl.concat(placed)


def _metadata(what: str, pid: int, tid: int, args: dict[str, object]) -> str:
    return json.dumps({"ph": "M", "name": what, "pid": pid, "tid": tid, "args": args})
