"""Writing a result to a file: whole or not at all, and never over what was not meant."""

from __future__ import annotations

import hashlib
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
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
    data = rendered.encode() if isinstance(rendered, str) else rendered
    with replacing(path, overwrite=overwrite) as beside:
        beside.write_bytes(data)


@contextmanager
def replacing(
    path: str | os.PathLike[str],
    *,
    overwrite: bool = False,
    trace: str | os.PathLike[str] | None = None,
) -> Iterator[Path]:
    """An empty file beside ``path`` to be filled; it takes the name ``path`` once that is done.

    An error or an interruption inside leaves ``path`` as it was and nothing beside it.

    Raises:
        OutputError: see :func:`check_target`; or the file cannot be written.
    """
    path = Path(path)
    check_target(path, overwrite=overwrite, trace=trace)
    try:
        handle, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
        os.close(handle)
        beside = Path(name)
        try:
            yield beside
            umask = os.umask(0)
            os.umask(umask)
            beside.chmod(0o666 & ~umask)
            beside.replace(path)
        finally:
            # Only there still if the write was interrupted.
            beside.unlink(missing_ok=True)
    except OSError as error:
        raise cannot_write(path, error.strerror or str(error)) from error


def cannot_write(path: Path, reason: str) -> OutputError:
    """The error for an output that cannot be written."""
    return OutputError(
        f"{path} cannot be written: {reason}.", hint="Choose a folder that exists and has room."
    )


def sha256(path: Path) -> str:
    """The SHA-256 of a file's bytes, in hexadecimal."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
