"""The allow-list of ``tables.toml``: what a shared trace may hold."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib.resources import files


@dataclass(frozen=True)
class AllowedTable:
    """A table that is copied, with its columns; the file ``tables.toml`` says what each is for."""

    name: str
    rows: str
    numbers: tuple[str, ...] = ()
    strings: tuple[str, ...] = ()
    texts: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Allowed:
    """The whole list.

    Attributes:
        tables: what is copied, in the order in which it must be.
        keys: table of names and values -> regular expressions of the names that are kept.
        messages: regular expressions for the parts of nsys's messages that are kept.
        ranges: names of NVTX ranges and domains that are no secret.
    """

    tables: tuple[AllowedTable, ...]
    keys: Mapping[str, tuple[str, ...]]
    messages: tuple[str, ...]
    ranges: frozenset[str]


@cache
def load_allowed() -> Allowed:
    """The built-in list."""
    data = tomllib.loads(files(__package__).joinpath("tables.toml").read_text("utf-8"))
    tables = [_table(name, entry) for name, entry in data["tables"].items()]
    enums = [
        AllowedTable(f"ENUM_{name}", "all", ("id",), (), {"name": "words", "label": "words"})
        for name in data["enums"]["names"]
    ]
    return Allowed(
        tables=(*tables, *enums),
        keys={table: tuple(names) for table, names in data["keys"].items()},
        messages=tuple(data["texts"]["messages"]),
        ranges=frozenset(data["texts"]["ranges"]),
    )


def _table(name: str, entry: Mapping[str, object]) -> AllowedTable:
    numbers, strings = (entry.get(key, ()) for key in ("numbers", "strings"))
    assert isinstance(numbers, list | tuple)  # noqa: S101 - our own file
    assert isinstance(strings, list | tuple)  # noqa: S101
    texts = entry.get("texts", {})
    assert isinstance(texts, dict)  # noqa: S101
    return AllowedTable(name, str(entry["rows"]), tuple(numbers), tuple(strings), texts)
