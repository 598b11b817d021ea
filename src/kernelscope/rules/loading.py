"""Reading rule files: TOML becomes `Rule` and `Category`, and `checks` says if they stand."""

import os
import tomllib
from collections.abc import Iterator, Mapping
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any

from kernelscope.errors import RuleError
from kernelscope.rules.checks import check_rules
from kernelscope.rules.tables import Category, Rule, RuleTable

_CATEGORIES = "categories.toml"
_BUILT_IN = ("inductor.toml", "kernels.toml")
"""The built-in rule files in order of precedence."""

_RULE_KEYS = {"id": str, "category": str, "pattern": str, "on": str, "seen": str, "note": str}
_REQUIRED = ("id", "category", "pattern")
_GRAMMAR = "A rule has id, category, pattern, examples, and may have on, seen, note."


def load_rules(path: str | os.PathLike[str] | None = None) -> RuleTable:
    """Return the rule table.

    Without `path` this is the built-in table. With one, the file's rules are tried before the
    built-in ones. Raises RuleError, naming file, rule and reason, when a file cannot be read or a
    check fails.
    """
    if path is None:
        return _built_in()
    below = _built_in()
    rules = _user_rules(Path(path))
    check_rules(rules, below.rules, below.categories)
    version = f"{below.version} + {Path(path).name}"
    return RuleTable(version, below.categories, (*rules, *below.rules))


def check_table(table: RuleTable) -> None:
    """Run every check on every rule of a table, built-in ones too.

    A user's file is checked whenever it is loaded. The built-in table was checked by the tests of
    the release; compiling its patterns alone takes a third of a second.

    Raises:
        RuleError: naming the file, the rule and the reason.
    """
    own = [rule for rule in table.rules if rule.source not in _BUILT_IN]
    built_in = [rule for rule in table.rules if rule.source in _BUILT_IN]
    check_rules(built_in, (), table.categories)
    check_rules(own, built_in, table.categories)


@cache
def _built_in() -> RuleTable:
    parts = [_parsed(_packaged(name), name) for name in _BUILT_IN]
    rules = [
        rule for part, name in zip(parts, _BUILT_IN, strict=True) for rule in _rules(part, name)
    ]
    return RuleTable(str(parts[-1]["version"]), tuple(_categories()), tuple(rules))


def _packaged(name: str) -> str:
    return resources.files(__package__).joinpath(name).read_text("utf-8")


def _parsed(text: str, source: str) -> Mapping[str, Any]:
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise RuleError(f"{source}: not a TOML file ({error}).", hint=_GRAMMAR) from error


def _user_rules(path: Path) -> list[Rule]:
    try:
        text = path.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "it is not UTF-8 text"
        raise RuleError(f"{path}: cannot be read ({reason}).", hint="Give a TOML file.") from error
    rules = list(_rules(_parsed(text, str(path)), str(path)))
    if not rules:
        raise RuleError(f"{path}: it holds no [[rule]].", hint=_GRAMMAR)
    return rules


def _categories() -> Iterator[Category]:
    for entry in _parsed(_packaged(_CATEGORIES), _CATEGORIES)["category"]:
        yield Category(
            name=entry["name"],
            family=entry.get("family", entry["name"]),
            definition=entry["definition"],
            kernels=tuple(entry["kernels"]),
            emitters=tuple(entry["emitters"]),
            by_rule=entry.get("by_rule", True),
        )


def _rules(part: Mapping[str, Any], source: str) -> Iterator[Rule]:
    entries = part.get("rule", [])
    if not isinstance(entries, list):
        raise RuleError(
            f"{source}: 'rule' is no list of tables.", hint="Begin rules with [[rule]]."
        )
    for number, entry in enumerate(entries, start=1):
        yield _rule(entry, number, source)


def _rule(entry: Any, number: int, source: str) -> Rule:
    if not isinstance(entry, dict):
        raise RuleError(f"{source}: rule {number} is no table.", hint="Begin rules with [[rule]].")
    where = f"{source}: rule {entry.get('id', number)!r}"
    if missing := [key for key in _REQUIRED if not entry.get(key)]:
        raise RuleError(f"{where}: {', '.join(missing)} missing.", hint=_GRAMMAR)
    if unknown := sorted(set(entry) - set(_RULE_KEYS) - {"examples"}):
        raise RuleError(f"{where}: {', '.join(unknown)} not known.", hint=_GRAMMAR)
    texts = {key: entry.get(key, "base" if key == "on" else "") for key in _RULE_KEYS}
    examples = entry.get("examples", [])
    if not all(isinstance(text, str) for text in texts.values()) or not _is_strings(examples):
        raise RuleError(
            f"{where}: a value is no text, or examples no list of texts.", hint=_GRAMMAR
        )
    return Rule(**texts, examples=tuple(examples), source=source)


def _is_strings(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(item, str) for item in value)
