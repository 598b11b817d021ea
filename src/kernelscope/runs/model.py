"""A run folder: its facts, its captures, and the times measured without the profiler."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from kernelscope.errors import RunError
from kernelscope.findings import Finding
from kernelscope.summary import Spread

FORMAT = 1


@dataclass(frozen=True)
class Captured:
    """One export of a run.

    Attributes:
        mode: ``"graphs"`` or ``"eager"``.
        batch: requests.
        export: the file, relative to the run folder.
        sha256: of the file when it was recorded.
        first_token_ms: unprofiled milliseconds until the first token, if measured.
        step_ms: unprofiled milliseconds of a decode step: those of all tokens less those of
            the first, over the tokens after it.
    """

    mode: str
    batch: int
    export: str
    sha256: str
    first_token_ms: Spread | None
    step_ms: Spread | None


@dataclass(frozen=True)
class Run:
    """A run folder and what ``run.json`` says."""

    folder: Path
    facts: Mapping[str, Any]
    captures: tuple[Captured, ...]

    @property
    def output_len(self) -> int:
        """Tokens generated for each request."""
        return int(self.facts["config"]["output_len"])


@dataclass(frozen=True, eq=False)
class RunAnalysis:
    """What was made of a run.

    Attributes:
        run: the run.
        tables: the frames behind the files in ``analysis``, by their names without ``.csv``.
        findings: what keeps the capture from being what it should be.
    """

    run: Run
    tables: Mapping[str, pl.DataFrame]
    findings: tuple[Finding, ...]

    @property
    def problems(self) -> tuple[Finding, ...]:
        """The findings that make the run's numbers wrong."""
        return tuple(found for found in self.findings if found.level == "problem")


def read_run(folder: str | os.PathLike[str]) -> Run:
    """What a run folder says of itself.

    Raises:
        RunError: there is no ``run.json``, it is damaged or of a newer format, or no export was
            recorded.
    """
    folder = Path(folder)
    path = folder / "run.json"
    try:
        facts = json.loads(path.read_text("utf-8"))
    except OSError as error:
        raise RunError(
            f"{folder} is no run folder: {path} cannot be read ({error.strerror}).",
            hint="Give the folder that kernelscope capture made.",
        ) from error
    except ValueError as error:
        raise RunError(
            f"{path} is not JSON: {error}.", hint="Copy the run folder again."
        ) from error
    try:
        if facts["format"] > FORMAT:
            raise RunError(
                f"{path} is of format {facts['format']}; this version reads up to {FORMAT}.",
                hint="Update kernelscope.",
            )
        new_tokens = int(facts["config"]["output_len"])
        captures = tuple(_captured(entry, new_tokens) for entry in facts["captures"])
    except (KeyError, TypeError, ValueError) as error:
        raise RunError(
            f"{path} lacks what a run must say ({type(error).__name__}: {error}).",
            hint="Copy the run folder again.",
        ) from error
    if not captures:
        raise RunError(
            f"{folder} holds no export: the capture failed or was stopped.",
            hint=f"See {folder / 'logs'}.",
        )
    return Run(folder, facts, captures)


def _captured(entry: Mapping[str, Any], new_tokens: int) -> Captured:
    times = entry["unprofiled"]
    first = step = None
    if times is not None:
        first_s = np.asarray(times["first_token_s"], np.float64)
        all_s = np.asarray(times["all_tokens_s"], np.float64)
        first = Spread.of(first_s * 1e3)
        steps_ms = (all_s - np.median(first_s)) / (new_tokens - 1) * 1e3
        # On a busy machine the prompt alone may have taken longer: then nothing was measured.
        step = Spread.of(steps_ms) if np.median(steps_ms) > 0 else None
    export = str(entry["export"])
    if Path(export).is_absolute() or ".." in Path(export).parts:
        raise ValueError(f"the export {export!r} is outside the run folder")
    return Captured(
        mode=str(entry["mode"]),
        batch=int(entry["batch"]),
        export=export,
        sha256=str(entry["sha256"]),
        first_token_ms=first,
        step_ms=step,
    )
