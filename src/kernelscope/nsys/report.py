"""An .nsys-rep given instead of its export: export it, where nsys is at hand."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
import weakref
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import polars as pl

from kernelscope.errors import ExportError, NotAnExport
from kernelscope.inspection import Inspection
from kernelscope.nsys import files
from kernelscope.trace import Source

T = TypeVar("T")
_LOG_LINES = 3


@dataclass(frozen=True)
class ExportedReport:
    """A temporary export, alone in its folder; the folder is removed with this object."""

    path: Path

    @classmethod
    def reserve(cls, name: str) -> ExportedReport:
        """A place for an export in a new folder."""
        folder = Path(tempfile.mkdtemp(prefix="kernelscope-"))
        reserved = cls(folder / name)
        weakref.finalize(reserved, shutil.rmtree, folder, ignore_errors=True)
        return reserved

    @contextmanager
    def told_as(self, report: Path) -> Iterator[None]:
        """Errors name the report: that is what the reader knows, not its temporary export."""
        try:
            yield
        except ExportError as error:
            told = error.message.replace(str(self.path), str(report))
            raise type(error)(told, hint=error.hint) from error


@dataclass(frozen=True)
class ReportSource:
    """An export's rows, keeping the temporary file alive while they can be asked for."""

    source: Source
    exported: ExportedReport
    report: Path

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

    def inspect(self) -> Inspection:
        """See :meth:`kernelscope.trace.Trace.inspect`."""
        return self.source.inspect()

    def check_has_work(self) -> None:
        """See :class:`kernelscope.trace.Source`."""
        with self.exported.told_as(self.report):
            self.source.check_has_work()


def export_report(report: Path) -> ExportedReport:
    """Run ``nsys export`` into a temporary folder.

    Raises:
        NotAnExport: nsys is not on the path, or its export failed.
    """
    nsys = shutil.which("nsys")
    by_hand = files.export_command(report)
    if nsys is None:
        raise NotAnExport(
            f"{report} is an nsys report (.nsys-rep), and nsys is not on the path to export it.",
            hint=f"Run where nsys is: {by_hand}",
        )
    exported = ExportedReport.reserve(f"{report.stem}.sqlite")
    command = [nsys, "export", "--type", "sqlite", "--output", str(exported.path), str(report)]
    try:
        done = subprocess.run(
            command,
            capture_output=True,
            text=True,
            errors="replace",
            check=False,
            stdin=subprocess.DEVNULL,
        )
    except OSError as error:
        raise NotAnExport(
            f"{report} is an nsys report (.nsys-rep), and {nsys} cannot be run: {error.strerror}.",
            hint=f"Run where nsys works: {by_hand}",
        ) from error
    if done.returncode != 0 or not exported.path.exists():
        log = " / ".join((done.stdout + done.stderr).strip().splitlines()[-_LOG_LINES:])
        raise NotAnExport(
            f"nsys could not export {report} (exit code {done.returncode}): {log}",
            hint=f"Try it by hand, with an nsys as new as the one that captured: {by_hand}",
        )
    return exported
