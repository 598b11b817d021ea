"""What differs between versions of vLLM, held as data in ``vllm_versions.toml``."""

from __future__ import annotations

import re
import tomllib
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

from kernelscope.errors import CaptureError

Version = tuple[int, int, int]


@dataclass(frozen=True)
class Profiling:
    """How a version of vLLM opens the profiler's window; see ``vllm_versions.toml``."""

    since: Version
    range: str
    labels: bool
    arguments: tuple[str, ...]
    environment: tuple[tuple[str, str], ...]


def parse_version(text: str) -> Version | None:
    """``(0, 24, 0)`` for ``"0.24.0+cu130"``; None where there is no version in the text."""
    match = re.search(r"(\d+)\.(\d+)(?:\.(\d+))?", text)
    return (int(match[1]), int(match[2]), int(match[3] or 0)) if match else None


def profiling_of(version: str) -> Profiling:
    """What holds for a version of vLLM; an unknown text counts as the newest.

    Raises:
        CaptureError: the version is older than any that is known.
    """
    parsed = parse_version(version)
    known = [entry for entry in _table() if parsed is None or entry.since <= parsed]
    if not known:
        oldest = ".".join(map(str, _table()[0].since))
        raise CaptureError(
            f"vLLM is {version}; captures need {oldest} or newer.",
            hint="Update vLLM, or run nsys by hand.",
        )
    return known[-1]


@cache
def _table() -> tuple[Profiling, ...]:
    text = files("kernelscope.capture").joinpath("vllm_versions.toml").read_text("utf-8")
    entries = (
        Profiling(
            since=parse_version(entry["since"]) or (0, 0, 0),
            range=entry["range"],
            labels=entry["labels"],
            arguments=tuple(entry["arguments"]),
            environment=tuple(entry["environment"].items()),
        )
        for entry in tomllib.loads(text)["version"]
    )
    return tuple(sorted(entries, key=lambda entry: entry.since))
