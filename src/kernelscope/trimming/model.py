"""What trimming leaves, and what it took away."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class Trimmed:
    """A smaller export that was written.

    Attributes:
        source: path of the trace.
        path: of the file that was written.
        steps: numbers that the kept steps have in the source, ascending; None if nothing was
            chosen, so that all of it is kept.
        finds_steps: whether the same steps are found in the output; inferred ones need some that
            recur.
        is_scrubbed: whether only what is on the allow-list was copied.
        rows: table -> (rows in the source, rows kept), for the tables that are in the output.
        dropped: tables that are not in the output -> their rows in the source.
        emptied: columns that stay in the output without their values, as ``TABLE.column``.
        replaced: texts that the output has in another form: table -> how many distinct ones.
        bytes_before: size of the source.
        bytes_after: size of the output.
    """

    source: str
    path: str
    steps: tuple[int, ...] | None
    finds_steps: bool
    is_scrubbed: bool
    rows: Mapping[str, tuple[int, int]]
    dropped: Mapping[str, int]
    emptied: tuple[str, ...]
    replaced: Mapping[str, int]
    bytes_before: int
    bytes_after: int
