"""A summary in the form that someone asked for; renderers get a Summary and compute nothing."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping

from kernelscope.rendering.data import render_csv, render_json, render_parquet
from kernelscope.rendering.database import render_sqlite
from kernelscope.rendering.markdown import render_markdown
from kernelscope.rendering.text import render_text
from kernelscope.summary.model import Summary
from kernelscope.writing import check_target, write_file

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
    check_target(path, overwrite=overwrite, trace=summary.info.path)
    write_file(path, render(summary, format, by=by), overwrite=overwrite)
