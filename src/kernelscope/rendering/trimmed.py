"""What trimming kept and removed, for people."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator

from kernelscope.findings import plural, tell_numbers
from kernelscope.rendering import wording
from kernelscope.trimming.model import Trimmed

_WIDTH = 100
_INDENT = " " * 9
_BYTES_PER_MB = 1e6
_ENUM = "ENUM_"
_REMAINS = {
    True: "names of kernels, API calls, processes and threads, step labels, model of the GPU, "
    "versions, and the name of the source file: look at them before you share the file.",
    False: "everything else, private things included: the environment, command lines, names of "
    "users and hosts. Do not share the file.",
}
_STEPS_ARE_LOST = (
    "the trace has no step labels, and in what was kept too little recurs to find its steps again: "
    "a summary will take it for one unit. Keep more steps that follow each other."
)


def render_text(trimmed: Trimmed, width: int = _WIDTH) -> str:
    """A table of rows, then what was removed and what remains."""
    return "".join(f"{line.rstrip()}\n" for line in _lines(trimmed, min(width, _WIDTH)))


def _lines(trimmed: Trimmed, width: int) -> Iterator[str]:
    before, after = (
        f"{size / _BYTES_PER_MB:,.1f} MB" for size in (trimmed.bytes_before, trimmed.bytes_after)
    )
    yield f"{wording.clean(trimmed.path)}: {_part(trimmed)}, {after} of {before}"
    yield ""
    events = {name: rows for name, rows in trimmed.rows.items() if not name.startswith(_ENUM)}
    longest = max(map(len, events), default=0)
    yield f"{'table':<{longest}}  {'rows before':>12}  {'rows kept':>12}"
    for name, (there_were, kept) in events.items():
        yield f"{wording.clean(name):<{longest}}  {there_were:>12,}  {kept:>12,}"
    yield ""
    for what, told in _paragraphs(trimmed):
        yield from textwrap.wrap(
            told, width, initial_indent=f"{what:<9}", subsequent_indent=_INDENT
        )


def _part(trimmed: Trimmed) -> str:
    if trimmed.steps is None:
        return "all steps"
    return tell_numbers(trimmed.steps) or "a part of its time"


def _paragraphs(trimmed: Trimmed) -> Iterator[tuple[str, str]]:
    """Headings and sentences."""
    dropped = {name: rows for name, rows in trimmed.dropped.items() if not name.startswith(_ENUM)}
    if dropped:
        tables = (f"{wording.clean(name)} ({rows:,})" for name, rows in dropped.items())
        yield "removed", f"{plural(len(dropped), 'table')} with all rows: {', '.join(tables)}."
    if trimmed.emptied:
        columns = ", ".join(map(wording.clean, trimmed.emptied))
        yield "emptied", f"{plural(len(trimmed.emptied), 'column')}: {columns}."
    for table, number in trimmed.replaced.items():
        label = f"{plural(number, 'label')} that no engine or library is known to write"
        yield "replaced", f'{label}, by "range N" ({wording.clean(table)}).'
    if not trimmed.finds_steps:
        yield "warning", _STEPS_ARE_LOST
    yield "remains", _REMAINS[trimmed.is_scrubbed]
