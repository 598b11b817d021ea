"""A progress bar for reading, on standard error, only when reading takes long."""

from __future__ import annotations

import time
from threading import Lock
from types import TracebackType
from typing import Self

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeElapsedColumn

_SILENT_S = 1.0


class ReadingProgress:
    """Shows rows read after a second of silence; shows nothing where no one is looking."""

    def __init__(self, console: Console | None = None) -> None:
        self._console = console or Console(stderr=True)
        self._progress: Progress | None = None
        self._task: TaskID | None = None
        self._began = time.monotonic()
        self._lock = Lock()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._progress is not None:
            self._progress.stop()

    def update(self, done: int, expected: int) -> None:
        """Tell how far reading is; called from reading threads."""
        with self._lock:
            if self._progress is None:
                if not self._console.is_terminal or time.monotonic() - self._began < _SILENT_S:
                    return
                self._start(expected)
        if self._progress is not None and self._task is not None:
            self._progress.update(self._task, completed=done, total=expected)

    def _start(self, expected: int) -> None:
        columns = (
            TextColumn("reading"),
            BarColumn(),
            TextColumn("{task.completed:,.0f} of {task.total:,.0f} kernels"),
            TimeElapsedColumn(),
        )
        self._progress = Progress(*columns, console=self._console, transient=True)
        self._task = self._progress.add_task("reading", total=expected)
        self._progress.start()
