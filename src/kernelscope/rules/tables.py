"""The nouns of the rule table. They are frozen: a table is built once and only read afterwards."""

from dataclasses import dataclass

TEXTS = ("base", "full", "inductor")
"""What a rule can look at (see `kernelscope.kernel_names`), and the method of a decision."""

UNKNOWN = "unknown"
CUDA_GRAPH = "cuda_graph"


@dataclass(frozen=True, slots=True)
class Category:
    """One member of the closed list. `family` names the row of a summary that it is counted in."""

    name: str
    family: str
    definition: str
    kernels: tuple[str, ...]
    emitters: tuple[str, ...]
    by_rule: bool = True


@dataclass(frozen=True, slots=True)
class Rule:
    """One line of the table: names whose text `on` holds `pattern` are of `category`.

    `examples` are real kernel names that this rule must win; `seen` says where they were met;
    `note` explains what is odd about the rule. `source` is the file that the rule was read from.
    """

    id: str
    category: str
    pattern: str
    on: str
    examples: tuple[str, ...]
    seen: str
    note: str = ""
    source: str = ""


@dataclass(frozen=True, slots=True)
class RuleTable:
    """Categories and rules. The order of `rules` is their precedence: the first match wins."""

    version: str
    categories: tuple[Category, ...]
    rules: tuple[Rule, ...]

    def category(self, name: str) -> Category:
        """Return the category called `name`; KeyError when there is none."""
        for category in self.categories:
            if category.name == name:
                return category
        raise KeyError(name)

    def family(self, category: str) -> str:
        """Return the family a category is counted in; KeyError when there is no such one."""
        return self.category(category).family

    def rule(self, rule_id: str) -> Rule:
        """Return the rule with this id; KeyError when there is none."""
        for rule in self.rules:
            if rule.id == rule_id:
                return rule
        raise KeyError(rule_id)
