"""What Inductor's generated kernels do, read from the sources of the run that made them.

vLLM keeps them under ``<cache>/torch_compile_cache/**/inductor_cache``, torch under
``TORCHINDUCTOR_CACHE_DIR``. Each file holds one compiled graph: its kernels as Triton source, and
the calls to them in order. Kernel names repeat between graphs (every graph has a
``triton_poi_fused_0``), so a kernel is known by its name and the kernel called after it.

Inductor writes the original ATen operations above each kernel. Where it lost track of them
(``Original ATen: []``, which is also why the name has none) they are read off the source: the
functions it calls, and whether it loads anything at all.

Files are read as text; nothing in them is run.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator
from itertools import pairwise
from pathlib import Path

import polars as pl

from kernelscope.errors import SourcesNotFound

SCHEMA = {"name": pl.String, "following": pl.String, "operations": pl.String}

_MOST_BYTES = 16_000_000
_KERNEL = re.compile(
    r"(?P<head>(?:^\#[^\n]*\n)*)"
    r"^(?P<name>triton_\w+) = async_compile\.triton\('(?P=name)', '''(?P<body>.*?)'''",
    re.MULTILINE | re.DOTALL,
)
_CALL = re.compile(r"^\s+(triton_\w+)\.run\(.*\bstream=", re.MULTILINE)
_ORIGINAL = re.compile(r"Original ATen: \[([^\]]*)\]")
_FUNCTION = re.compile(r"\b(?:tl|libdevice|tl_math|triton_helpers)\.(\w+)\(")
_ARITHMETIC = re.compile(r"\btmp\d+ [-+*/] tmp\d+")

# Triton function -> ATen operation, for those that tell what a kernel is about.
_OPERATIONS = {
    "sigmoid": "sigmoid",
    "tanh": "tanh",
    "erf": "erf",
    "rsqrt": "rsqrt",
    "sqrt": "sqrt",
    "sqrt_rn": "sqrt",
    "exp": "exp",
    "exp2": "exp2",
    "cos": "cos",
    "sin": "sin",
    "log": "log",
    "sum": "sum",
    "max2": "amax",
    "min2": "amin",
    "max_with_index": "argmax",
    "argmax": "argmax",
    "rand": "rand",
    "randn": "rand",
    "sort_with_index": "sort",
    "where": "where",
}


def read_inductor_sources(folder: str | os.PathLike[str]) -> pl.DataFrame:
    """The generated kernels under a folder.

    Args:
        folder: Inductor's cache, or any folder above it.

    Returns:
        One row per kernel and successor (:data:`SCHEMA`): ``name``, ``following`` (the generated
        kernel called after it in its graph, null for the last), ``operations`` (ATen names
        joined by ``_``, as they would stand in a kernel's name). Rows are distinct.

    Raises:
        SourcesNotFound: there is no such folder, or no generated kernel in it.
    """
    root = Path(folder)
    if not root.is_dir():
        raise SourcesNotFound(f"There is no folder {root}.", hint="Give Inductor's cache folder.")
    rows = sorted({row for text in _texts(root) for row in _rows(text)}, key=str)
    if not rows:
        raise SourcesNotFound(
            f"No file under {root} holds a kernel that Inductor generated.",
            hint="Give the folder that holds inductor_cache, from the run that was captured.",
        )
    return pl.DataFrame(rows, schema=SCHEMA, orient="row")


def _texts(root: Path) -> Iterator[str]:
    for path in sorted(root.rglob("*.py")):
        if path.is_file() and path.stat().st_size <= _MOST_BYTES:
            yield path.read_text("utf-8", errors="replace")


def _rows(text: str) -> Iterator[tuple[str, str | None, str]]:
    kernels = {match["name"]: _operations(match) for match in _KERNEL.finditer(text)}
    following: dict[str, set[str | None]] = {}
    for name, after in pairwise([*_CALL.findall(text), None]):
        following.setdefault(str(name), set()).add(after)
    for name, operations in kernels.items():
        for after in following.get(name, {None}):
            yield name, after, "_".join(operations)


def _operations(kernel: re.Match[str]) -> list[str]:
    stated = _ORIGINAL.search(kernel["head"])
    names = [part.strip() for part in stated[1].split(",") if part.strip()] if stated else []
    return sorted({name.split(".")[-1] for name in names}) or sorted(set(_read_off(kernel["body"])))


def _read_off(body: str) -> Iterable[str]:
    """Operations that a kernel's Triton source shows."""
    functions = _FUNCTION.findall(body)
    found = [_OPERATIONS[name] for name in functions if name in _OPERATIONS]
    if "load" not in functions:
        return ["full"]
    if _ARITHMETIC.search(body):
        found.append("mul")
    return found or ["clone"]
