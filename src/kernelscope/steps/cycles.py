"""Which graph replays of a thread recur as the bodies of steps."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import polars as pl

from kernelscope.steps.cutting import cut_around, most_common
from kernelscope.steps.inferred import Pieces
from kernelscope.steps.launches import Thread
from kernelscope.steps.recurrence import LEAST_STEPS

# Graphs of one model for several batch sizes differ in a few kernels (split-K or not).
_ALIKE = 0.75
# A prefill's pieces and a draft are small beside the graph of a whole model.
_LARGE = 0.5

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Cycle:
    """The recurring replays of one thread.

    Attributes:
        bodies: position in the thread's launches of the replay that each step is known by.
        graphs: the graph of each body.
        length: replays per step.
        kernels: kernels in the replays of a usual step; 0 if they were not recorded.
        pieces: the steps around the bodies.
    """

    bodies: Ints
    graphs: Ints
    length: int
    kernels: int
    pieces: Pieces


def find_cycle(thread: Thread, replays: pl.DataFrame) -> Cycle | None:
    """The recurring replays of a thread, if there are any.

    Args:
        thread: whose launches.
        replays: the capture's replays (:func:`kernelscope.steps.graphs.read_replays`).
    """
    sequence = _Sequence.of(thread, replays)
    word = sequence.main_word()
    if word is None:
        return None
    is_alternating = sequence.is_alternating(word)
    length = 1 if is_alternating else word.size
    keys = word if is_alternating else word[:1]
    known, parts = sequence.with_other_sizes(keys, word, length)
    at = sequence.bodies(keys, known)
    if at.size < LEAST_STEPS:
        return None
    is_part = np.isin(sequence.key, parts)
    is_part[at] = True
    foreign = sequence.position[~is_part]
    own = sequence.own_launches(word) if length > 1 else 0
    cut = cut_around(sequence.position[at], thread.pause_ns, foreign, own)
    if cut is None:
        return None
    graphs = sequence.graph[at]
    kernels = int(sequence.kernels[word[:length]].sum())
    pieces = Pieces(thread, *cut, _labels(graphs))
    return Cycle(sequence.position[at], graphs, length, kernels, pieces)


def _labels(graphs: Ints) -> list[str]:
    """``graph 7 replay 3`` for the third step whose body is graph 7."""
    times: dict[int, int] = defaultdict(int)
    labels = []
    for graph in graphs.tolist():
        times[graph] += 1
        labels.append(f"graph {graph} replay {times[graph]}")
    return labels


@dataclass(frozen=True, eq=False)
class _Sequence:
    """The replays of one thread in launch order.

    A key is a node set: two replays have one if their graph and their kernel count agree.

    Attributes:
        position: where in the thread's launches, shape (n,).
        key: number of the node set, shape (n,).
        graph: which graph, shape (n,).
        count: how often each key occurs, shape (keys,).
        size: kernels of each key, or its median time in ns where they were not recorded.
        kernels: kernels of each key, 0 where they were not recorded.
    """

    position: Ints
    key: Ints
    graph: Ints
    count: Ints
    size: Floats
    kernels: Ints

    @classmethod
    def of(cls, thread: Thread, replays: pl.DataFrame) -> _Sequence:
        """The replays that this thread launched."""
        launches = pl.DataFrame(
            {"call": thread.rows, "position": np.arange(thread.rows.size)},
            schema={"call": pl.Int32, "position": pl.Int64},
        )
        mine = launches.join(replays, on="call", how="inner", maintain_order="left")
        mine = mine.with_columns(key=pl.struct("graph", "kernels").rank("dense").cast(pl.Int64) - 1)
        keys = (
            mine.group_by("key")
            .agg(
                pl.len().cast(pl.Int64).alias("count"), pl.col("size").median(), pl.first("kernels")
            )
            .sort("key")
        )
        rows = (mine[name].to_numpy() for name in ("position", "key", "graph"))
        return cls(*rows, *(keys[name].to_numpy() for name in ("count", "size", "kernels")))

    @property
    def by_weight(self) -> Ints:
        """Keys, those first that replayed most in all."""
        return np.argsort(-self.count * self.size, kind="stable")

    def main_word(self) -> Ints | None:
        """The replays of a usual step, the one that replays most first; None without one.

        Candidates are the large graphs among those that recur: a full graph is the body even
        where many prefills replayed more pieces.
        """
        recurs = self.count >= LEAST_STEPS
        least = _LARGE * self.size[recurs].max(initial=0)
        for key in self.by_weight:
            if recurs[key] and self.size[key] >= least:
                word = self.word(key)
                if word is not None:
                    return word
        return None

    def word(self, key: int) -> Ints | None:
        """The keys from a replay to before the next of the same key, as most often found."""
        at = np.flatnonzero(self.key == key)
        distance = np.diff(at)
        if distance.size < LEAST_STEPS - 1:
            return None
        length = most_common(distance)
        begins = at[:-1][distance == length]
        words, times = np.unique(
            self.key[begins[:, None] + np.arange(length)], axis=0, return_counts=True
        )
        best = int(np.argmax(times))
        return np.asarray(words[best]) if times[best] > 1 else None

    def is_alternating(self, word: Ints) -> bool:
        """Whether the word is steps of several batch sizes in turn rather than one step.

        Their bodies are about equally large and equally far apart in launches; within a step
        the distance between pieces is not that from the last piece to the next step's first.
        """
        size = self.size[word]
        if word.size == 1 or np.unique(word).size < word.size:
            return word.size == 1
        if size.min() < _ALIKE * size.max():
            return False
        found = self.places(word, word.size + 1)
        distances = np.diff(self.position[found[:, None] + np.arange(word.size + 1)], axis=1)
        usual = np.median(distances, axis=0)
        return bool(usual.max() == usual.min())

    def with_other_sizes(self, keys: Ints, word: Ints, length: int) -> tuple[Ints, Ints]:
        """Keys of bodies at every batch size, and of all replays that are part of a step."""
        bodies, parts = list(keys), set(word.tolist())
        usual = self.size[keys[0]]
        for key in self.by_weight:
            if key in parts or not _ALIKE <= self.size[key] / usual <= 1 / _ALIKE:
                continue
            other = self.word(key) if length > 1 else np.array([key])
            if other is not None and other.size == length and parts.isdisjoint(other.tolist()):
                bodies.append(key)
                parts.update(other.tolist())
        return np.array(bodies), np.array(sorted(parts))

    def bodies(self, keys: Ints, known: Ints) -> Ints:
        """Which replays are bodies.

        A graph that is rarely replayed counts where it comes after a body: before, it is a
        warm-up of one of many sizes. The last replay may have been cut by the end of the capture.
        """
        at = np.flatnonzero(np.isin(self.key, known))
        is_usual = np.isin(self.key[at], keys) | (self.count[self.key[at]] >= LEAST_STEPS)
        at = at[is_usual | (at > at[is_usual].min())]
        last = self.key.size - 1
        is_cut = self.graph[last] == self.graph[at[-1]] and self.count[self.key[last]] == 1
        return np.append(at, last) if is_cut and at[-1] != last else at

    def own_launches(self, word: Ints) -> int:
        """Launches from a body to the last replay of its step.

        0 where no graph outweighs the others: then the body is any one of several pieces.
        """
        if self.size[word[0]] < self.size[word[1:]].max() / _LARGE:
            return 0
        at = self.places(word, word.size)
        return int(np.median(self.position[at + word.size - 1] - self.position[at]))

    def places(self, word: Ints, room: int) -> Ints:
        """Where the word begins with room for that many replays."""
        at = np.flatnonzero(self.key == word[0])
        at = at[at + room <= self.key.size]
        is_word = (self.key[at[:, None] + np.arange(word.size)] == word).all(axis=1)
        return np.asarray(at[is_word])
