"""What went wrong, from the log of a stage; the patterns are data in ``failures.toml``."""

from __future__ import annotations

import re
import tomllib
from functools import cache
from importlib.resources import files
from pathlib import Path

from kernelscope.errors import CaptureError

_READ_BYTES = 200_000
_SHOWN_LINES = 5


def failure(what: str, log: Path) -> CaptureError:
    """The error for a stage that failed.

    Args:
        what: what happened, as the beginning of a sentence: ``"record_graphs ended with 1"``.
        log: what the stage wrote.
    """
    text = tail(log)
    for pattern, message, hint in _table():
        match = pattern.search(text)
        if match:
            told = message.format(*(group or "" for group in match.groups()))
            return CaptureError(f"{what}: {told}. {_last_lines(text)}", hint=f"{hint} Log: {log}.")
    return CaptureError(f"{what}. {_last_lines(text)}", hint=f"The whole log: {log}.")


def tail(log: Path) -> str:
    """The end of a log; empty where there is none."""
    try:
        with log.open("rb") as file:
            file.seek(0, 2)
            file.seek(max(0, file.tell() - _READ_BYTES))
            return file.read().decode("utf-8", "replace")
    except OSError:
        return ""


def last_line(text: str) -> str:
    """The last line with something on it; progress bars overwrite theirs."""
    lines = [line.strip() for line in re.split(r"[\r\n]+", text) if line.strip()]
    return lines[-1] if lines else ""


def _last_lines(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip()][-_SHOWN_LINES:]
    return "Last lines: " + " / ".join(lines) if lines else "It wrote nothing."


@cache
def _table() -> tuple[tuple[re.Pattern[str], str, str], ...]:
    text = files("kernelscope.capture").joinpath("failures.toml").read_text("utf-8")
    return tuple(
        (re.compile(entry["pattern"]), entry["message"], entry["hint"])
        for entry in tomllib.loads(text)["failure"]
    )
