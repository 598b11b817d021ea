"""Trying rules on names: the one place where a pattern meets a text.

Patterns are run by the Rust regex engine inside polars. It takes time linear in the length of the
text for every pattern, so no name can make a rule backtrack without end; the price is that
patterns have no look-around and no back-references. Where a rule must not win some names, another
rule stands above it.

Most of the cost of a pattern is compiling it, and polars keeps only the last few compiled. So
rules are tried by groups: one pattern that joins those of a group says which names the group can
win, and only on those are its rules tried one by one. That changes no result.
"""

from collections.abc import Sequence

import polars as pl

from kernelscope.rules.tables import TEXTS, Rule

GROUP_SIZE = 16


def first_matches(texts: pl.DataFrame, rules: Sequence[Rule]) -> pl.Series:
    """Return for each row of `texts` the index of the first rule that matches (UInt32, null: none).

    `texts` has the String columns `base`, `full` and `inductor`. Rules are tried in order, each on
    the rows that no earlier rule has won.
    """
    winner = pl.repeat(None, texts.height, dtype=pl.UInt32, eager=True)
    undecided = texts.with_row_index("row")
    for start in range(0, len(rules), GROUP_SIZE):
        won = _group_matches(undecided, rules[start : start + GROUP_SIZE])
        winner = winner.scatter(won["row"], won["index"] + start)
        undecided = undecided.join(won, on="row", how="anti", maintain_order="left")
    return winner


def _group_matches(texts: pl.DataFrame, rules: Sequence[Rule]) -> pl.DataFrame:
    """Return `row` and `index` (UInt32): the rows that this group wins and by which rule."""
    undecided = texts.filter(_can_win(texts, rules))
    won = [pl.DataFrame(schema={"row": pl.UInt32, "index": pl.UInt32})]
    for index, rule in enumerate(rules):
        if undecided.is_empty():
            break
        matched = matches(undecided[rule.on], rule.pattern)
        rows = undecided["row"].filter(matched)
        won.append(
            pl.DataFrame(
                {"row": rows, "index": pl.repeat(index, len(rows), dtype=pl.UInt32, eager=True)}
            )
        )
        undecided = undecided.filter(~matched)
    return pl.concat(won)


def _can_win(texts: pl.DataFrame, rules: Sequence[Rule]) -> pl.Series:
    """Return which rows some rule of the group matches (Boolean)."""
    possible = pl.repeat(value=False, n=texts.height, dtype=pl.Boolean, eager=True)
    for text in TEXTS:
        patterns = [f"(?:{rule.pattern})" for rule in rules if rule.on == text]
        if patterns:
            possible |= _matches_or_all(texts[text], "|".join(patterns))
    return possible


def _matches_or_all(text: pl.Series, pattern: str) -> pl.Series:
    """Return what matches; everything, where patterns that compile alone do not do so joined."""
    try:
        return matches(text, pattern)
    except pl.exceptions.ComputeError:
        return text.is_not_null()


def matches(text: pl.Series, pattern: str) -> pl.Series:
    """Return whether each text holds the pattern (Boolean; false where the text is null)."""
    return text.str.contains(pattern).fill_null(value=False)


def pattern_error(pattern: str) -> str:
    """Return why a pattern does not compile, or an empty string when it does."""
    try:
        matches_empty(pattern)
    except pl.exceptions.ComputeError as error:
        lines = [line.strip() for line in str(error).splitlines() if line.strip()]
        return lines[-1].removeprefix("error: ")
    return ""


def matches_empty(pattern: str) -> bool:
    """Return whether a pattern that compiles matches the empty text, and so every text."""
    return bool(matches(pl.Series([""]), f"(?:{pattern})")[0])
