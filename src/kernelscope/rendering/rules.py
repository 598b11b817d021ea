"""The categories and the rules, printed from the data."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import asdict

from rich import box
from rich.table import Table

from kernelscope.rendering.markdown import escape
from kernelscope.rendering.plain import WIDTH, plain
from kernelscope.rules import Rule, RuleTable


def render_categories(rules: RuleTable) -> str:
    """A table for the terminal, 100 columns wide."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False)
    table.add_column("category", no_wrap=True)
    table.add_column("family", no_wrap=True)
    table.add_column("what it is", ratio=1)
    for category in rules.categories:
        examples = ", ".join(category.kernels[:3])
        text = category.definition + (f" ({examples})" if examples else "")
        table.add_row(category.name, category.family, text)
    return plain(lambda console: console.print(table, markup=False))


def render_categories_json(rules: RuleTable) -> str:
    """A list of objects: name, family, definition, kernels, emitters."""
    entries = [
        {key: value for key, value in asdict(category).items() if key != "by_rule"}
        for category in rules.categories
    ]
    return json.dumps(entries, indent=2, ensure_ascii=False) + "\n"


def render_categories_markdown(rules: RuleTable) -> str:
    """The table of the documentation."""
    lines = ["| category | family | definition | kernels | emitted by |", "|---|---|---|---|---|"]
    lines += [
        f"| `{category.name}` | `{category.family}` | {escape(category.definition)} "
        f"| {_listed(category.kernels)} | {_listed(category.emitters)} |"
        for category in rules.categories
    ]
    return "\n".join(lines) + "\n"


def _listed(names: Iterable[str]) -> str:
    return ", ".join(escape(name) for name in names)


CATEGORY_FORMATS: Mapping[str, Callable[[RuleTable], str]] = {
    "table": render_categories,
    "json": render_categories_json,
    "markdown": render_categories_markdown,
}


def render_rules(rules: RuleTable) -> str:
    """Every rule with its pattern and an example, in the order in which they are tried."""
    return "".join(f"{line}\n" for line in _rule_lines(rules))


def _rule_lines(rules: RuleTable) -> Iterator[str]:
    yield f"rules {rules.version}: {len(rules.rules)} rules, the first that matches wins"
    for number, rule in enumerate(rules.rules, start=1):
        yield ""
        yield from _one_rule(number, rule)


def _one_rule(number: int, rule: Rule) -> Iterator[str]:
    yield f"{number}. {rule.id} -> {rule.category} ({rule.on})"
    yield f"   pattern  {' '.join(rule.pattern.split())}"
    yield f"   example  {rule.examples[0][:WIDTH]}"
    if rule.note:
        yield f"   note     {rule.note}"
