"""The rule table: its checks, its messages, and that no rule of ours is idle."""

from pathlib import Path

import polars as pl
import pytest

from kernelscope.classification import classify_names
from kernelscope.errors import RuleError
from kernelscope.kernel_names import name_texts
from kernelscope.rules import Rule, RuleTable, load_rules
from kernelscope.rules.matching import GROUP_SIZE, first_matches, matches, matches_empty

NAMES = Path(__file__).parent.parent / "fixtures" / "names"
CORPORA = (NAMES / "kernels.csv", NAMES / "unseen.csv")

MINE = """
[[rule]]
id = "mine"
category = "gemm"
pattern = '^my_multiply'
examples = ["my_multiply_kernel"]
"""


@pytest.fixture(scope="module")
def rules() -> RuleTable:
    return load_rules()


@pytest.fixture(scope="module")
def corpus(rules: RuleTable) -> pl.DataFrame:
    known = [pl.read_csv(path).select("name") for path in CORPORA]
    examples = pl.DataFrame({"name": [name for rule in rules.rules for name in rule.examples]})
    return pl.concat([*known, examples]).unique(maintain_order=True)


def named(names: list[str]) -> pl.DataFrame:
    schema = {"name": pl.String, "short_name": pl.String}
    return pl.DataFrame({"name": names, "short_name": [None] * len(names)}, schema=schema)


def loaded(tmp_path: Path, text: str) -> RuleTable:
    path = tmp_path / "mine.toml"
    path.write_text(text, "utf-8")
    return load_rules(path)


def test_every_example_is_won_by_its_own_rule(rules: RuleTable) -> None:
    examples = [(rule.id, name) for rule in rules.rules for name in rule.examples]
    won = classify_names(named([name for _, name in examples]), rules)["rule_id"].to_list()
    assert won == [rule_id for rule_id, _ in examples]


def test_no_rule_is_shadowed(rules: RuleTable, corpus: pl.DataFrame) -> None:
    won = set(classify_names(named(corpus["name"].to_list()), rules)["rule_id"])
    assert {rule.id for rule in rules.rules} <= won


def test_a_rule_for_one_name_says_why(rules: RuleTable, corpus: pl.DataFrame) -> None:
    counts = classify_names(named(corpus["name"].to_list()), rules).group_by("rule_id").len()
    single = set(counts.filter(pl.col("len") == 1)["rule_id"])
    silent = [rule.id for rule in rules.rules if rule.id in single and not rule.note]
    assert not silent


def test_no_pattern_matches_the_empty_text(rules: RuleTable) -> None:
    assert not [rule.id for rule in rules.rules if matches_empty(rule.pattern)]


def test_grouping_changes_no_result(rules: RuleTable, corpus: pl.DataFrame) -> None:
    texts = name_texts(named(corpus["name"].to_list()[:: max(1, corpus.height // 300)]))
    one_by_one = pl.Series([None] * texts.height, dtype=pl.UInt32)
    for index in range(len(rules.rules) - 1, -1, -1):
        rule = rules.rules[index]
        hit = matches(texts[rule.on], rule.pattern)
        one_by_one = one_by_one.zip_with(
            ~hit, pl.repeat(index, len(hit), dtype=pl.UInt32, eager=True)
        )
    assert first_matches(texts, rules.rules).equals(one_by_one)
    assert len(rules.rules) > GROUP_SIZE


def test_every_category_is_defined(rules: RuleTable) -> None:
    for category in rules.categories:
        assert category.definition.endswith(".")
        assert category.family in {other.name for other in rules.categories}
        assert not category.by_rule or (category.kernels and category.emitters)


def test_every_category_that_rules_give_has_one(rules: RuleTable) -> None:
    given = {rule.category for rule in rules.rules}
    assert given == {category.name for category in rules.categories if category.by_rule}


def test_families(rules: RuleTable) -> None:
    joined = {c.name: c.family for c in rules.categories if c.family != c.name}
    assert joined == {
        "gemv": "gemm",
        "attention_combine": "attention",
        "conv": "linear_attention",
    }


def test_look_ups_of_the_table(rules: RuleTable) -> None:
    assert rules.rule("nvjet").category == "gemm"
    assert rules.family("gemv") == "gemm"
    with pytest.raises(KeyError):
        rules.rule("none")
    with pytest.raises(KeyError):
        rules.category("none")


def test_every_rule_says_where_it_was_seen(rules: RuleTable) -> None:
    assert not [rule.id for rule in rules.rules if not rule.seen]


def test_the_table_is_built_once() -> None:
    assert load_rules() is load_rules()


def test_user_rules_come_first(tmp_path: Path, rules: RuleTable) -> None:
    text = MINE.replace("my_multiply'", "nvjet_'").replace("my_multiply_kernel", "nvjet_x")
    table = loaded(tmp_path, text)
    assert [rule.id for rule in table.rules] == ["mine", *(rule.id for rule in rules.rules)]
    assert classify_names(named(["nvjet_sm90"]), table)["rule_id"].to_list() == ["mine"]
    assert table.version == f"{rules.version} + mine.toml"
    assert table.rules[0] == Rule(
        id="mine",
        category="gemm",
        pattern="^nvjet_",
        on="base",
        examples=("nvjet_x",),
        seen="",
        source=str(tmp_path / "mine.toml"),
    )


def test_user_rules_can_decide_generated_names(tmp_path: Path) -> None:
    text = MINE.replace("my_multiply'", "triton_poi_fused_0$'")
    table = loaded(tmp_path, text.replace("my_multiply_kernel", "triton_poi_fused_0"))
    assert classify_names(named(["triton_poi_fused_0"]), table)["category"].to_list() == ["gemm"]


BROKEN = {
    "category missing": MINE.replace('category = "gemm"', ""),
    "id missing": MINE.replace('id = "mine"', ""),
    "colour not known": MINE + 'colour = "red"\n',
    "a value is no text": MINE + "seen = 3\n",
    "no example": MINE.replace('"my_multiply_kernel"', ""),
    "there is no category 'gem'": MINE.replace('"gemm"', '"gem"'),
    "category 'unknown' is never given by a rule": MINE.replace('"gemm"', '"unknown"'),
    "category 'cuda_graph' is never given": MINE.replace('"gemm"', '"cuda_graph"'),
    "'on' is 'name'": MINE + 'on = "name"\n',
    "does not compile": MINE.replace("^my", "(my"),
    "look-around": MINE.replace("^my", "(?!my)my"),
    "matches the empty text": MINE.replace("^my_multiply", "(my_multiply)?"),
    "does not match its example 'other'": MINE.replace("my_multiply_kernel", "other"),
    "the id is already used in this file": MINE + MINE,
    "the id is already used in": MINE.replace('"mine"', '"nvjet"'),
    "is won by rule 'mine'": MINE
    + '[[rule]]\nid = "later"\ncategory = "moe"\npattern = "multiply"\n'
    + 'examples = ["my_multiply_kernel"]\n',
    "holds no [[rule]]": "",
    "not a TOML file": "[[rule]",
    "'rule' is no list": "rule = 1",
    "rule 1 is no table": "rule = [1]",
}


@pytest.mark.parametrize("reason", BROKEN)
def test_a_bad_file_is_refused_with_its_name_and_the_reason(tmp_path: Path, reason: str) -> None:
    with pytest.raises(RuleError) as error:
        loaded(tmp_path, BROKEN[reason])
    assert reason in str(error.value)
    assert "mine.toml" in str(error.value) or "nvjet" in str(error.value)
    assert error.value.hint


def test_a_missing_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(RuleError, match=r"none\.toml: cannot be read \(No such file"):
        load_rules(tmp_path / "none.toml")


def test_a_file_that_is_no_text_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(RuleError, match="it is not UTF-8 text"):
        load_rules(path)


def test_patterns_that_do_not_join_still_decide(tmp_path: Path) -> None:
    twice = MINE.replace("^my_multiply", "(?P<part>my_multiply)") + (
        '[[rule]]\nid = "other"\ncategory = "moe"\npattern = "(?P<part>my_route)"\n'
        'examples = ["my_route_kernel"]\n'
    )
    table = loaded(tmp_path, twice)
    got = classify_names(named(["my_route_kernel", "my_multiply", "zzz"]), table)
    assert got["category"].to_list() == ["moe", "gemm", "unknown"]
