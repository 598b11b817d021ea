"""Input of another kind than SQLite: it is made into a temporary export, which is then read."""

from __future__ import annotations

import shutil
import tempfile
import weakref
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import polars as pl

from kernelscope.errors import ExportError
from kernelscope.inspection import Inspection
from kernelscope.trace import Source

T = TypeVar("T")


@dataclass(frozen=True)
class TemporaryExport:
    """A temporary export, alone in its folder; the folder is removed with this object."""

    path: Path

    @classmethod
    def reserve(cls, name: str) -> TemporaryExport:
        """A place for an export in a new folder, which only its owner may read."""
        folder = Path(tempfile.mkdtemp(prefix="kernelscope-"))
        reserved = cls(folder / name)
        weakref.finalize(reserved, shutil.rmtree, folder, ignore_errors=True)
        return reserved

    @contextmanager
    def told_as(self, given: Path) -> Iterator[None]:
        """Errors name what was given: that is what the reader knows, not its temporary export."""
        try:
            yield
        except ExportError as error:
            told = error.message.replace(str(self.path), str(given))
            raise type(error)(told, hint=error.hint) from error


@dataclass(frozen=True)
class TemporarySource:
    """An export's rows, keeping the temporary file alive while they can be asked for."""

    source: Source
    exported: TemporaryExport
    given: Path

    def map_rows(
        self, table: str, columns: Sequence[str], function: Callable[[pl.DataFrame], T]
    ) -> list[T]:
        """See :meth:`kernelscope.trace.Trace.map_rows`."""
        with self.exported.told_as(self.given):
            return self.source.map_rows(table, columns, function)

    def ranges(self, prefix: str) -> pl.DataFrame:
        """See :meth:`kernelscope.trace.Trace.find_ranges`."""
        with self.exported.told_as(self.given):
            return self.source.ranges(prefix)

    def strings(self, ids: Collection[int]) -> dict[int, str]:
        """See :class:`kernelscope.trace.Source`."""
        with self.exported.told_as(self.given):
            return self.source.strings(ids)

    def inspect(self) -> Inspection:
        """See :meth:`kernelscope.trace.Trace.inspect`."""
        with self.exported.told_as(self.given):
            return self.source.inspect()

    def check_has_work(self) -> None:
        """See :class:`kernelscope.trace.Source`."""
        with self.exported.told_as(self.given):
            self.source.check_has_work()
