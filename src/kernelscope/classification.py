"""From kernel names to categories, by the rule table.

One order decides everything: that of the table. A rule looks at one text of a name (its base name,
its full name, or the operations that Inductor fused into it; see `kernelscope.kernel_names`),
rules of all three kinds stand in one list, and the first that matches wins. What none matches
stays unknown.

`method` records the text that the winning rule looked at.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import polars as pl

from kernelscope.kernel_names import name_texts
from kernelscope.rules import RuleTable
from kernelscope.rules.matching import first_matches, matches
from kernelscope.rules.tables import UNKNOWN

_NAMES_SCHEMA = {"name": pl.String, "short_name": pl.String}
DECISION_SCHEMA = {"category": pl.String, "rule_id": pl.String, "method": pl.String}


@dataclass(frozen=True, slots=True)
class Attempt:
    """One rule that was tried on a name; `text` is what it looked at, None if the name has none."""

    rule_id: str
    category: str
    method: str
    text: str | None
    matched: bool


def classify_names(names: pl.DataFrame, rules: RuleTable) -> pl.DataFrame:
    """Return `names` with the String columns `category`, `rule_id` and `method` added.

    `names` has one row per distinct kernel with the String columns `name` (the full demangled
    name) and
    `short_name`, both nullable. Rows keep their order. A name that no rule matches has category
    "unknown" and nulls in the other two columns.
    """
    winners = first_matches(name_texts(names), rules.rules)
    return names.with_columns(_decisions(winners, rules))


def _decisions(winners: pl.Series, rules: RuleTable) -> list[pl.Series]:
    by_index = pl.DataFrame(
        {
            "category": [rule.category for rule in rules.rules],
            "rule_id": [rule.id for rule in rules.rules],
            "method": [rule.on for rule in rules.rules],
        },
        schema=DECISION_SCHEMA,
    )
    decided = {name: by_index[name].gather(winners) for name in DECISION_SCHEMA}
    return [decided["category"].fill_null(UNKNOWN), decided["rule_id"], decided["method"]]


def explain(name: str, rules: RuleTable) -> list[Attempt]:
    """Return the rules tried on one name, in order; the last one matched, unless none did."""
    frame = pl.DataFrame(
        {"name": [name], "short_name": [None]}, schema_overrides={"short_name": pl.String}
    )
    return list(_attempts(name_texts(frame), rules))


def _attempts(texts: pl.DataFrame, rules: RuleTable) -> Iterator[Attempt]:
    for rule in rules.rules:
        matched = bool(matches(texts[rule.on], rule.pattern)[0])
        yield Attempt(rule.id, rule.category, rule.on, texts[rule.on][0], matched)
        if matched:
            return


def decide(names: Sequence[str], rules: RuleTable) -> pl.DataFrame:
    """Return what single names are: `name`, `category`, `family`, `rule` and `method`.

    Rows are in the order given; `rule` and `method` are null where nothing decides.
    """
    frame = pl.DataFrame({"name": names, "short_name": None}, schema=_NAMES_SCHEMA)
    families = {category.name: category.family for category in rules.categories}
    return classify_names(frame, rules).select(
        "name",
        "category",
        pl.col("category").replace_strict(families, return_dtype=pl.String).alias("family"),
        pl.col("rule_id").alias("rule"),
        "method",
    )


def explain_names(
    names: Sequence[str], rules: RuleTable
) -> Iterator[tuple[str, Sequence[Attempt]]]:
    """Return for each name the rules that were tried on it; see `explain`."""
    return ((name, explain(name, rules)) for name in names)
