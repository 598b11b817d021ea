"""The direction of imports, held as data: a module imports only from rows above its own.

Every import statement counts, also those inside functions and those for types only, so that no
cycle can hide. The table follows the design: steps do not need classification, the reader does
not need rules, renderers get a summary and never a trace.
"""

import ast
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parent.parent / "src" / "kernelscope"

# A row may import from every row above it and, unless it is in ISOLATED, from itself. A name
# ending in .* is a package with all its modules.
ROWS = (
    {
        "errors",
        "intervals",
        "api_names",
        "numbering",
        "findings",
        "inspection",
        "model_config",
        "writing",
    },
    {"frames"},
    {"interop"},
    {"trace"},
    {"nsys.*", "rules.*", "kernel_names", "mangled_names.*", "inductor_sources"},
    {"classification", "steps.*"},
    {"placement"},
    {"idle"},
    {"measure", "context.*", "analysis"},
    {"step_table"},
    {"layers.*"},
    {"charts.*"},
    {"summary.*"},
    {"ceilings.*"},
    {"diagnosis.*", "trimming.*", "records.*", "timeline.*", "comparison.*"},
    {"runs.*", "capture.*"},
    {"rendering.*"},
    {"commands.*"},
    {"cli"},
    {"__main__"},
)
# Packages that share a row and still must not know each other.
STRANGERS = {
    ("nsys.*", "rules.*"),
    ("nsys.*", "kernel_names"),
    ("nsys.*", "mangled_names.*"),
    ("steps.*", "classification"),
    ("diagnosis.*", "trimming.*"),
    ("diagnosis.*", "records.*"),
    ("records.*", "trimming.*"),
    ("capture.*", "runs.*"),
}
# Beyond the rows: what a unit never needs, although it stands above.
NEVER = {
    "steps.*": {"kernel_names", "rules.*", "nsys.*"},
    "classification": {"nsys.*", "trace"},
    "rules.*": {"trace"},
    # A capture needs none of the analysis: it runs on the GPU host.
    "capture.*": {"nsys.*", "summary.*", "analysis", "trace", "frames"},
    "rendering.*": {"nsys.*", "steps.*", "placement", "measure", "analysis"},
}
# Who may import what comes from outside, other than to name a type; everybody may use the
# standard library, except that the driver of the database is one module's business too.
OUTSIDE = {
    "altair": {"charts.drawing", "charts.ceiling"},
    "vl_convert": {"charts.files"},
    "jinja2": {"rendering.report"},
    "sqlite3": {"nsys.database", "nsys.extract", "records.*"},
    "adbc_driver_sqlite": {"nsys.database"},
    "adbc_driver_manager": {"nsys.database"},
    "click": {"cli", "commands.*"},
    "pandas": {"interop"},
    "pyarrow": {"interop", "nsys.folders"},
    "rich": {"rendering.*", "commands.*"},
    "sqlite_utils": {"rendering.database", "records.*"},
    "subprocess": {"nsys.report", "capture.host", "capture.process"},
    "tokenizers": {"capture.prompts"},
    "vllm": {"capture.workload"},
    "torch": {"capture.workload"},
}


def name_of(path):
    """``nsys.database`` for src/kernelscope/nsys/database.py."""
    parts = path.relative_to(PACKAGE).with_suffix("").parts
    return ".".join(part for part in parts if part != "__init__")


MODULES = {name_of(path): path for path in PACKAGE.rglob("*.py")}


def unit_of(module):
    """The entry of ROWS that a module belongs to."""
    package = f"{module.split('.')[0]}.*"
    for row in ROWS:
        for unit in (module, package):
            if unit in row:
                return unit
    return None


def row_of(unit):
    return next(number for number, row in enumerate(ROWS) if unit in row)


def is_one_of(module, units):
    return module in units or f"{module.split('.')[0]}.*" in units


def imports(module, *, types=True):
    """Full names of everything that a module imports, anywhere in it, also for types only."""
    for node in nodes_of(ast.parse(MODULES[module].read_text("utf-8")), types=types):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{module} imports relatively"
            for alias in node.names:
                inner = f"{node.module}.{alias.name}".removeprefix("kernelscope.")
                is_module = inner in MODULES and f"kernelscope.{inner}" != node.module
                yield f"kernelscope.{inner}" if is_module else node.module


def nodes_of(node, *, types):
    """Every node below, perhaps without those of ``if TYPE_CHECKING:``."""
    for child in ast.iter_child_nodes(node):
        if not types and isinstance(child, ast.If) and ast.unparse(child.test) == "TYPE_CHECKING":
            continue
        yield child
        yield from nodes_of(child, types=types)


INSIDE = [
    (module, target.removeprefix("kernelscope").removeprefix("."))
    for module in sorted(MODULES)
    if module
    for target in sorted(set(imports(module)))
    if target.split(".")[0] == "kernelscope"
]


def test_every_module_has_a_place_in_the_table():
    assert [module for module in MODULES if module and unit_of(module) is None] == []


def test_the_walk_sees_imports_within_functions_and_for_types():
    # Without this the other tests could pass by seeing nothing.
    assert ("steps.labels", "frames") in INSIDE
    assert "pyarrow.parquet" in set(imports("interop"))  # inside a function
    assert "pandas" in set(imports("interop"))  # under TYPE_CHECKING
    assert len(INSIDE) > 50


@pytest.mark.parametrize(("module", "target"), INSIDE)
def test_imports_go_one_way(module, target):
    assert target, f"{module} imports the package's root"
    mine, other = unit_of(module), unit_of(target)
    if mine == other:
        return
    assert row_of(other) <= row_of(mine), f"{module} imports {target} from a row below its own"
    assert (mine, other) not in STRANGERS
    assert (other, mine) not in STRANGERS
    assert other not in NEVER.get(mine, ()), f"{module} has no need of {target}"


def test_units_of_one_row_import_each_other_in_one_direction():
    pairs = {(unit_of(module), unit_of(target)) for module, target in INSIDE}
    assert [(a, b) for a, b in pairs if a != b and (b, a) in pairs] == []


def test_modules_of_one_package_do_not_import_in_a_circle():
    targets = {}
    for module, target in INSIDE:
        targets.setdefault(module, set()).add(target)

    def reaches(start):
        seen, todo = set(), list(targets.get(start, ()))
        while todo:
            at = todo.pop()
            if at not in seen:
                seen.add(at)
                todo += targets.get(at, ())
        return seen

    assert [module for module in targets if module in reaches(module)] == []


@pytest.mark.parametrize("foreign", sorted(OUTSIDE))
def test_each_foreign_thing_has_one_home(foreign):
    def users(*, types):
        return {
            module
            for module in MODULES
            if foreign in {target.split(".")[0] for target in imports(module, types=types)}
        }

    strays = [user for user in users(types=False) if not is_one_of(user, OUTSIDE[foreign])]
    assert strays == []
    assert users(types=True), f"nothing uses {foreign}"


def test_the_root_imports_no_command_line_and_nothing_at_import_time():
    tree = ast.parse(MODULES[""].read_text("utf-8"))
    eager = {
        alias.name if isinstance(node, ast.Import) else node.module
        for node in tree.body
        if isinstance(node, (ast.Import, ast.ImportFrom))
        for alias in node.names
    }
    assert not any(name.startswith("kernelscope") for name in eager)
    targets = {name.removeprefix("kernelscope.") for name in imports("")}
    assert [name for name in targets if is_one_of(name, {"cli", "commands.*"})] == []
