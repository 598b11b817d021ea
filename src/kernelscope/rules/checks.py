"""The checks that every rule file passes before it is used. Each message names the place."""

from collections.abc import Iterable, Sequence

import polars as pl

from kernelscope.errors import RuleError
from kernelscope.kernel_names import name_texts
from kernelscope.rules.matching import first_matches, matches_empty, pattern_error
from kernelscope.rules.tables import TEXTS, Category, Rule


def check_rules(
    rules: Sequence[Rule], below: Sequence[Rule], categories: Sequence[Category]
) -> None:
    """Raise RuleError at the first of `rules` that cannot stand; both are in order of precedence.

    `below` are rules that have been checked before and that `rules` are laid over: these may take
    names
    from them, examples too.
    """
    _check_ids((*below, *rules))
    allowed = [category.name for category in categories if category.by_rule]
    for rule in rules:
        _check_category(rule, allowed, categories)
        _check_pattern(rule)
        if not rule.examples:
            raise _error(
                rule, "it has no example", "Give at least one kernel name that it must win."
            )
    _check_examples(rules)


def _error(rule: Rule, reason: str, hint: str) -> RuleError:
    return RuleError(f"{rule.source}: rule {rule.id!r}: {reason}.", hint=hint)


def _check_ids(rules: Iterable[Rule]) -> None:
    sources: dict[str, str] = {}
    for rule in rules:
        if rule.id in sources:
            where = "this file" if sources[rule.id] == rule.source else sources[rule.id]
            raise _error(
                rule, f"the id is already used in {where}", "Give the rule an id of its own."
            )
        sources[rule.id] = rule.source


def _check_category(rule: Rule, allowed: list[str], categories: Sequence[Category]) -> None:
    if rule.category in allowed:
        return
    if rule.category in (category.name for category in categories):
        raise _error(rule, f"category {rule.category!r} is never given by a rule", _one_of(allowed))
    raise _error(rule, f"there is no category {rule.category!r}", _one_of(allowed))


def _one_of(names: Iterable[str]) -> str:
    return f"Use one of {', '.join(names)}."


def _check_pattern(rule: Rule) -> None:
    if rule.on not in TEXTS:
        raise _error(rule, f"'on' is {rule.on!r}", _one_of(TEXTS))
    if reason := pattern_error(rule.pattern):
        raise _error(
            rule,
            f"the pattern does not compile ({reason})",
            "Patterns are of the Rust regex engine: no look-around, no back-references.",
        )
    if matches_empty(rule.pattern):
        raise _error(
            rule, "the pattern matches the empty text, and so every name", "Make it longer."
        )


def _check_examples(rules: Sequence[Rule]) -> None:
    examples = [(index, name) for index, rule in enumerate(rules) for name in rule.examples]
    names = pl.DataFrame(
        {"name": [name for _, name in examples], "short_name": [None] * len(examples)},
        schema={"name": pl.String, "short_name": pl.String},
    )
    winners = first_matches(name_texts(names), rules).to_list()
    for (index, name), winner in zip(examples, winners, strict=True):
        if winner != index:
            raise _lost_example(rules[index], name, None if winner is None else rules[winner])


def _lost_example(rule: Rule, name: str, winner: Rule | None) -> RuleError:
    if winner is None:
        return _error(
            rule, f"it does not match its example {name!r}", "Mend the pattern or the example."
        )
    return _error(
        rule,
        f"its example {name!r} is won by rule {winner.id!r} ({winner.category}) above it",
        "Move the rule up, or narrow the one above.",
    )
