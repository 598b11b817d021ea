"""A summary in the form that someone asked for; renderers get a Summary and compute nothing."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path

from kernelscope.errors import OutputError
from kernelscope.rendering.data import render_csv, render_json, render_parquet
from kernelscope.rendering.database import render_sqlite
from kernelscope.rendering.markdown import render_markdown
from kernelscope.rendering.text import render_text
from kernelscope.summary.model import Summary

__all__ = ["BINARY_FORMATS", "FORMATS", "render", "write_summary"]

Renderer = Callable[[Summary, str], str | bytes]

FORMATS: Mapping[str, Renderer] = {
    "text": render_text,
    "json": render_json,
    "csv": render_csv,
    "markdown": render_markdown,
    "parquet": render_parquet,
    "sqlite": render_sqlite,
}
"""Format name -> function of a summary and the kind of row ("category", "family", "kernel")."""

BINARY_FORMATS = frozenset({"parquet", "sqlite"})


def render(summary: Summary, format: str = "text", *, by: str = "category") -> str | bytes:
    """The summary in one of :data:`FORMATS`.

    Args:
        summary: what to show.
        format: a key of :data:`FORMATS`.
        by: what a row stands for: ``"category"``, ``"family"`` or ``"kernel"``.

    Raises:
        KeyError: there is no such format or kind of row.
    """
    return FORMATS[format](summary, by)


def write_summary(
    summary: Summary,
    path: str | os.PathLike[str],
    format: str = "json",
    *,
    by: str = "category",
    overwrite: bool = False,
) -> None:
    """Write a summary to a file, whole or not at all.

    Raises:
        KeyError: there is no such format or kind of row.
        OutputError: the file exists and ``overwrite`` is false, it is the trace itself, or it
            cannot be written.
    """
    path = Path(path)
    if path.exists() and not overwrite:
        raise OutputError(f"{path} exists.", hint="Choose another name, or overwrite with --force.")
    _check_may_be_replaced(path, summary)
    rendered = render(summary, format, by=by)
    data = rendered.encode() if isinstance(rendered, str) else rendered
    try:
        _write_beside_then_rename(path, data)
    except OSError as error:
        raise OutputError(
            f"{path} cannot be written: {error.strerror or error}.",
            hint="Choose a folder that exists and has room.",
        ) from error


def _check_may_be_replaced(path: Path, summary: Summary) -> None:
    trace = Path(summary.info.path)
    if path.exists() and trace.exists() and path.samefile(trace):
        raise OutputError(f"{path} is the trace itself.", hint="Choose another name.")
    if path.exists() and not path.is_file():
        raise OutputError(f"{path} is not a regular file.", hint="Choose another name.")


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
    except BaseException:
        with suppress(OSError):
            Path(beside).unlink()
        raise
