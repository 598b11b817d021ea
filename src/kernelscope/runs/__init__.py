"""Run folders: what a capture left, and the tables that are made of it."""

from __future__ import annotations

import os

import polars as pl

from kernelscope.errors import RunError
from kernelscope.findings import Finding
from kernelscope.rules import RuleTable
from kernelscope.runs.checks import check_capture
from kernelscope.runs.model import Captured, Run, RunAnalysis, read_run
from kernelscope.runs.tables import detail_tables, phase_rows
from kernelscope.summary import summarize
from kernelscope.writing import replacing, sha256

__all__ = ["Captured", "Run", "RunAnalysis", "analyze_run", "read_run"]


def analyze_run(folder: str | os.PathLike[str], *, rules: RuleTable | None = None) -> RunAnalysis:
    """Make a run's ``analysis`` folder from its exports alone.

    The same exports and version of the package give the same bytes.

    Args:
        folder: a run folder, as ``kernelscope capture`` leaves it.
        rules: the rule table to use; by default the built-in one.

    Raises:
        RunError: it is no run folder, holds no export, or an export is not the one recorded.
        ExportError: an export cannot be read.
        OutputError: ``analysis`` cannot be written.
    """
    run = read_run(folder)
    sources = run.folder / "inductor"
    rows: list[pl.DataFrame] = []
    tables: dict[str, pl.DataFrame] = {}
    findings: list[Finding] = []
    for captured in run.captures:
        _check_export(run, captured)
        summary = summarize(
            run.folder / captured.export,
            rules=rules,
            layers=True,
            inductor_cache=sources if sources.is_dir() else None,
        )
        rows.append(phase_rows(captured, summary))
        tables |= dict(detail_tables(captured, summary))
        findings += check_capture(run, captured, summary)
    tables = {"phase_summary": pl.concat(rows), **tables}
    _write(run, tables)
    return RunAnalysis(run, tables, tuple(findings))


def _check_export(run: Run, captured: Captured) -> None:
    path = run.folder / captured.export
    if not path.is_file():
        raise RunError(
            f"{run.folder} lacks {captured.export}, which run.json names.",
            hint="Copy the run folder again, with raw.",
        )
    if sha256(path) != captured.sha256:
        raise RunError(
            f"{path} is not the file that was recorded: its SHA-256 is not that in run.json.",
            hint="Copy the run folder again.",
        )


def _write(run: Run, tables: dict[str, pl.DataFrame]) -> None:
    analysis = run.folder / "analysis"
    try:
        analysis.mkdir(exist_ok=True)
    except OSError as error:
        raise RunError(f"{analysis} cannot be made: {error.strerror}.") from error
    for stale in analysis.glob("*.csv"):
        if stale.stem not in tables:
            stale.unlink()
    for name, table in tables.items():
        with replacing(analysis / f"{name}.csv", overwrite=True) as beside:
            table.write_csv(beside)
