"""A diagnosis in every form."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from rich.console import Console
from rich.table import Table
from rich.text import Text

from kernelscope.diagnosis import Diagnosis
from kernelscope.findings import TOPICS, Finding, plural
from kernelscope.rendering import wording
from kernelscope.rendering.data import to_json
from kernelscope.rendering.markdown import escape, table_lines
from kernelscope.rendering.plain import plain

_STYLES = {"ok": "green", "warning": "bold yellow", "problem": "bold red"}


def render_text(diagnosis: Diagnosis) -> str:
    """A plain report, 100 columns wide."""
    return plain(lambda console: print_diagnosis(diagnosis, console))


def print_diagnosis(diagnosis: Diagnosis, console: Console) -> None:
    """Print the report to a console of any width: a line per finding, and the verdict."""
    console.print(Text(wording.clean(diagnosis.path), style="bold", overflow="fold"))
    table = Table.grid(padding=(0, 2))
    table.add_column(width=len("problem"), no_wrap=True)
    table.add_column(width=max(map(len, TOPICS)), no_wrap=True, style="cyan")
    table.add_column(overflow="fold")
    for found in diagnosis.findings:
        level = Text(found.level, style=_STYLES[found.level])
        table.add_row(level, found.topic, Text(wording.clean(told(found))))
    console.print(table)
    console.print(Text(verdict(diagnosis), style="bold"))


def render_markdown(diagnosis: Diagnosis) -> str:
    """A table with a line per finding, and the verdict."""
    return "\n".join(_markdown(diagnosis)) + "\n"


def _markdown(diagnosis: Diagnosis) -> Iterator[str]:
    yield from [f"# {escape(diagnosis.path)}", ""]
    rows = [(found.level, found.topic, told(found)) for found in diagnosis.findings]
    yield from table_lines(("level", "topic", "finding"), "lll", rows)
    yield from ["", verdict(diagnosis)]


def told(found: Finding) -> str:
    """Message, evidence and action in one paragraph."""
    evidence = f"({found.evidence})" if found.evidence else ""
    action = f"→ {found.action}" if found.action else ""
    return " ".join(part for part in (found.message, evidence, action) if part)


def verdict(diagnosis: Diagnosis) -> str:
    """Whether a summary of this trace can be believed."""
    warnings = sum(found.level == "warning" for found in diagnosis.findings)
    counted = f"{plural(len(diagnosis.problems), 'problem')}, {plural(warnings, 'warning')}."
    if diagnosis.problems:
        return f"{counted} Numbers of this trace are wrong, incomplete or not to be had."
    if warnings:
        return f"{counted} Numbers of this trace hold, within the limits that the warnings name."
    return f"{counted} Numbers of this trace hold."


DIAGNOSIS_FORMATS: Mapping[str, Callable[[Diagnosis], str]] = {
    "text": render_text,
    "json": lambda diagnosis: to_json(diagnosis.to_dict()),
    "markdown": render_markdown,
}
"""Format name -> function of a diagnosis."""
