"""Writing a result to a file: whole or not at all, and never over what was not meant."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from kernelscope.errors import OutputError


def check_target(
    path: str | os.PathLike[str],
    *,
    overwrite: bool = False,
    trace: str | os.PathLike[str] | None = None,
) -> None:
    """Return if a result may be written to ``path``.

    Raises:
        OutputError: it exists and ``overwrite`` is false, it is the trace itself, or it is not a
            regular file.
    """
    path = Path(path)
    if not path.exists():
        return
    if trace is not None and Path(trace).exists() and path.samefile(trace):
        raise OutputError(f"{path} is the trace itself.", hint="Choose another name.")
    if not path.is_file():
        raise OutputError(f"{path} is not a regular file.", hint="Choose another name.")
    if not overwrite:
        raise OutputError(f"{path} exists.", hint="Choose another name, or overwrite with --force.")


def write_file(
    path: str | os.PathLike[str], rendered: str | bytes, *, overwrite: bool = False
) -> None:
    """Write a rendered result.

    Raises:
        OutputError: see :func:`check_target`; or the file cannot be written.
    """
    path = Path(path)
    check_target(path, overwrite=overwrite)
    data = rendered.encode() if isinstance(rendered, str) else rendered
    try:
        _write_beside_then_rename(path, data)
    except OSError as error:
        raise OutputError(
            f"{path} cannot be written: {error.strerror or error}.",
            hint="Choose a folder that exists and has room.",
        ) from error


def _write_beside_then_rename(path: Path, data: bytes) -> None:
    """An interrupted write must not leave half a file under the name that was asked for."""
    handle, beside = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
        umask = os.umask(0)
        os.umask(umask)
        Path(beside).chmod(0o666 & ~umask)
        Path(beside).replace(path)
    finally:
        # Only there still if the write was interrupted.
        Path(beside).unlink(missing_ok=True)
