"""Progress on standard error: of reading, when it takes long, and of the stages of a capture."""

from __future__ import annotations

import time
from threading import Lock
from types import TracebackType
from typing import Self

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeElapsedColumn
from rich.status import Status
from rich.text import Text

from kernelscope.rendering import wording

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


class StageProgress:
    """Shows how far a capture is: on a terminal as it goes, else one line per change."""

    def __init__(self, console: Console | None = None) -> None:
        self._console = console or Console(stderr=True, highlight=False, markup=False)
        self._status: Status | None = None
        self._shown: tuple[str, str] | None = None

    def __enter__(self) -> Self:
        if self._console.is_terminal:
            self._status = self._console.status("starting")
            self._status.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._status is not None:
            self._status.stop()

    def update(self, name: str, stage: str, elapsed_s: float, line: str) -> None:
        """Tell which program runs, how far it is, for how many seconds, and its last line."""
        told = f"{name}: {stage}, {elapsed_s:.0f} s"
        if self._status is not None:
            room = max(0, self._console.width - len(told) - 6)
            self._status.update(Text(f"{told}  {wording.clean(line)[:room]}"))
        elif (name, stage) != self._shown:
            self._console.print(told)
        self._shown = (name, stage)
