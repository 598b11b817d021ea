"""Trying rules on names: the one place where a pattern meets a text.

Patterns are run by the Rust regex engine inside polars. It takes time linear in the length of the text
for every pattern, so no name can make a rule backtrack without end; the price is that patterns have no
look-around and no back-references. Where a rule must not win some names, another rule stands above it.
"""

from collections.abc import Sequence

import polars as pl

from kernelscope.rules.tables import Rule


def first_matches(texts: pl.DataFrame, rules: Sequence[Rule]) -> pl.Series:
    """Return for each row of `texts` the index of the first rule that matches (UInt32, null: none).

    `texts` has the String columns `base`, `full` and `inductor`. Rules are tried in order, each on the
    rows that no earlier rule has won.
    """
    winner = pl.repeat(None, texts.height, dtype=pl.UInt32, eager=True)
    undecided = texts.with_row_index("row")
    for index, rule in enumerate(rules):
        won = matches(undecided[rule.on], rule)
        if won.any():
            winner = winner.scatter(undecided["row"].filter(won), index)
            undecided = undecided.filter(~won)
    return winner


def matches(text: pl.Series, rule: Rule) -> pl.Series:
    """Return whether each text holds the rule's pattern (Boolean; false where the text is null)."""
    return text.str.contains(rule.pattern).fill_null(value=False)


def pattern_error(pattern: str) -> str:
    """Return why a pattern does not compile, or an empty string when it does."""
    try:
        pl.Series([""]).str.contains(pattern)
    except pl.exceptions.ComputeError as error:
        lines = [line.strip() for line in str(error).splitlines() if line.strip()]
        return lines[-1].removeprefix("error: ")
    return ""


def matches_empty(pattern: str) -> bool:
    """Return whether a pattern that compiles matches the empty text, and so every text."""
    return bool(pl.Series([""]).str.contains(pattern)[0])
