"""An .nsys-rep given instead of its export: export it, where nsys is at hand."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import polars as pl

from kernelscope.errors import NotAnExport
from kernelscope.trace import Source

T = TypeVar("T")
_LOG_LINES = 3


@dataclass(frozen=True)
class ExportedReport:
    """A temporary export; the folder is removed with this object."""

    folder: tempfile.TemporaryDirectory[str]
    path: Path


@dataclass(frozen=True)
class ReportSource:
    """An export's rows, keeping the temporary file alive while they can be asked for."""

    source: Source
    exported: ExportedReport

    def map_rows(
        self, table: str, columns: Sequence[str], function: Callable[[pl.DataFrame], T]
    ) -> list[T]:
        """See :meth:`kernelscope.trace.Trace.map_rows`."""
        return self.source.map_rows(table, columns, function)

    def ranges(self, prefix: str) -> pl.DataFrame:
        """See :meth:`kernelscope.trace.Trace.find_ranges`."""
        return self.source.ranges(prefix)

    def strings(self, ids: Collection[int]) -> dict[int, str]:
        """See :class:`kernelscope.trace.Source`."""
        return self.source.strings(ids)


def export_report(report: Path) -> ExportedReport:
    """Run ``nsys export`` into a temporary folder.

    Raises:
        NotAnExport: nsys is not on the path, or its export failed.
    """
    nsys = shutil.which("nsys")
    by_hand = f"nsys export --type sqlite -o {report.stem}.sqlite {report.name}"
    if nsys is None:
        raise NotAnExport(
            f"{report} is an nsys report (.nsys-rep), and nsys is not on the path to export it.",
            hint=f"Run where nsys is: {by_hand}",
        )
    folder = tempfile.TemporaryDirectory(prefix="kernelscope-")
    target = Path(folder.name) / f"{report.stem}.sqlite"
    command = [nsys, "export", "--type", "sqlite", "--output", str(target), str(report)]
    done = subprocess.run(
        command,
        capture_output=True,
        text=True,
        errors="replace",
        check=False,
        stdin=subprocess.DEVNULL,
    )
    if done.returncode != 0 or not target.exists():
        log = " / ".join((done.stdout + done.stderr).strip().splitlines()[-_LOG_LINES:])
        raise NotAnExport(
            f"nsys could not export {report} (exit code {done.returncode}): {log}",
            hint=f"Try it by hand, with an nsys as new as the one that captured: {by_hand}",
        )
    return ExportedReport(folder, target)
