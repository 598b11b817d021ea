"""Running a program with a log, a deadline, and nothing left behind."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import time
import tomllib
from collections.abc import Callable, Iterable
from functools import cache
from importlib.resources import files
from pathlib import Path

from kernelscope.capture.commands import Stage
from kernelscope.capture.failures import failure, last_line, tail
from kernelscope.errors import CaptureError

Progress = Callable[[str, str, float, str], None]
"""Called with the stage's name, how far it is, seconds since it began, and its last line."""

_POLL_S = 0.2
# vLLM's workers get 5 s by default to end; nsys then still writes its report.
_GRACE_S = 10.0


def run_stage(stage: Stage, log: Path, *, deadline_s: float, progress: Progress) -> None:
    """Run a program to its end, its output in a log.

    Raises:
        CaptureError: it cannot be started, fails, or takes longer than its deadline; then, as
            after an interruption, neither it nor a child of it is left running.
    """
    began = time.monotonic()
    with log.open("wb") as output:
        try:
            process = subprocess.Popen(
                stage.command,
                stdout=output,
                stderr=subprocess.STDOUT,
                stdin=subprocess.DEVNULL,
                env=os.environ | stage.environment,
                start_new_session=True,
            )
        except OSError as error:
            raise CaptureError(
                f"{stage.command[0]} cannot be run: {error.strerror}.", hint="Check its path."
            ) from error
        try:
            while process.poll() is None and time.monotonic() - began <= deadline_s:
                _tell(stage, log, time.monotonic() - began, progress)
                time.sleep(_POLL_S)
        finally:
            # Past its deadline, or we were interrupted.
            if is_late := process.poll() is None:
                stop(process)
    if is_late:
        raise failure(f"{stage.name} took longer than {deadline_s:.0f} s", log)
    _tell(stage, log, time.monotonic() - began, progress)
    if process.returncode != 0:
        raise failure(f"{stage.name} ended with {_told(process.returncode)}", log)


def _tell(stage: Stage, log: Path, elapsed_s: float, progress: Progress) -> None:
    text = tail(log)
    progress(stage.name, stage_of(text) or stage.kind, elapsed_s, last_line(text))


def stage_of(text: str) -> str | None:
    """How far a run is, from the end of its log."""
    last = max(
        ((found.start(), name) for pattern, name in _stages() for found in pattern.finditer(text)),
        default=None,
    )
    return last[1] if last else None


def stop(process: subprocess.Popen[bytes]) -> None:
    """End a program and everything that it started: asked first, then killed."""
    family = [process.pid, *descendants(process.pid)]
    for number, wait_s in ((signal.SIGINT, _GRACE_S), (signal.SIGTERM, _GRACE_S / 2)):
        if process.poll() is not None:
            break
        os.kill(process.pid, number)
        try:
            process.wait(wait_s)
        except subprocess.TimeoutExpired:
            family += descendants(process.pid)
    for member in dict.fromkeys(family):
        _kill(member)
    process.wait()
    deadline = time.monotonic() + _GRACE_S
    while any(map(_is_running, family)) and time.monotonic() < deadline:
        time.sleep(_POLL_S / 10)


def descendants(pid: int) -> list[int]:
    """Process ids of the children of a process, and theirs (Linux)."""
    children: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal():
            try:
                stat = (entry / "stat").read_text("utf-8", "replace")
            except OSError:
                continue  # ended in the meantime
            # The name in parentheses may hold anything, spaces too.
            children.setdefault(int(stat.rpartition(")")[2].split()[1]), []).append(int(entry.name))
    found: list[int] = []
    rest = [pid]
    while rest:
        rest += (more := children.get(rest.pop(), []))
        found += more
    return found


def _is_running(pid: int) -> bool:
    """Whether a process runs; one that only waits to be collected does not."""
    try:
        return ") Z " not in Path(f"/proc/{pid}/stat").read_text("utf-8", "replace")
    except OSError:
        return False


def _kill(pid: int) -> None:
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        return


def _told(code: int) -> str:
    """``exit code 3`` or ``SIGKILL``."""
    if code >= 0:
        return f"exit code {code}"
    try:
        return signal.Signals(-code).name
    except ValueError:
        return f"signal {-code}"


@cache
def _stages() -> Iterable[tuple[re.Pattern[str], str]]:
    text = files("kernelscope.capture").joinpath("stages.toml").read_text("utf-8")
    return tuple((re.compile(pattern), name) for pattern, name in tomllib.loads(text).items())
