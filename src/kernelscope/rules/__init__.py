"""The rules that say what a kernel is for: data in TOML files, loaded and checked here.

`load_rules()` gives the built-in table; `load_rules(path)` lays a user's file over it.
`tables.Rule` says what a rule is, the header of `kernels.toml` how one is written, `matching` how
one is tried.
"""

from kernelscope.rules.loading import check_table, load_rules
from kernelscope.rules.tables import TEXTS, Category, Rule, RuleTable

__all__ = ["TEXTS", "Category", "Rule", "RuleTable", "check_table", "load_rules"]
