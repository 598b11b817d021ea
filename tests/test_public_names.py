"""The public surface: pinned, documented, loaded when first used."""

import subprocess
import sys

import pytest

import kernelscope

# Publishing a name later is free; taking one back is not. Change this list on purpose.
PUBLIC = {
    "Diagnosis",
    "Finding",
    "PhaseSummary",
    "PhaseRoofline",
    "Recorded",
    "Roofline",
    "Rule",
    "RuleTable",
    "RunAnalysis",
    "RunFacts",
    "Steps",
    "Summary",
    "Timeline",
    "Trace",
    "Trimmed",
    "__version__",
    "analyze_run",
    "classify",
    "classify_names",
    "diagnose",
    "errors",
    "history",
    "load_rules",
    "read_export",
    "record",
    "render",
    "roofline",
    "split_steps",
    "summarize",
    "trim",
    "write_comparison",
    "write_summary",
    "write_timeline",
    "Comparison",
    "PhaseComparison",
    "Shift",
    "compare",
}
DATA = {"__version__"}
HEAVY = (
    "altair", "vl_convert", "pandas", "pyarrow", "rich", "polars", "numpy", "sqlite_utils",
    "adbc_driver_sqlite",
)  # fmt: skip


def modules_after(code):
    """Which of the heavy packages a fresh interpreter has loaded after this code."""
    report = f"import sys; {code}; print(*[m for m in {HEAVY} if m in sys.modules])"
    done = subprocess.run(
        [sys.executable, "-c", report], capture_output=True, text=True, check=True
    )
    return set(done.stdout.splitlines()[-1].split())


def test_the_public_names_are_these():
    assert set(kernelscope.__all__) == PUBLIC
    assert len(kernelscope.__all__) == len(PUBLIC)


def test_all_is_sorted():
    assert kernelscope.__all__ == sorted(kernelscope.__all__)


@pytest.mark.parametrize("name", sorted(PUBLIC))
def test_each_name_can_be_imported(name):
    assert getattr(kernelscope, name) is not None


@pytest.mark.parametrize("name", sorted(PUBLIC - DATA))
def test_each_name_is_documented(name):
    documented = getattr(kernelscope, name).__doc__
    assert documented
    # A dataclass without a docstring gets its signature for one.
    assert not documented.startswith(f"{name}(")


@pytest.mark.parametrize("name", ["PhaseSummary", "Steps", "Summary", "Trace"])
def test_methods_and_properties_of_the_nouns_are_documented(name):
    noun = getattr(kernelscope, name)
    members = [getattr(noun, member) for member in vars(noun) if not member.startswith("_")]
    assert all(member.__doc__ for member in members if callable(member) or hasattr(member, "func"))


def test_dir_lists_the_public_names():
    assert set(dir(kernelscope)) == PUBLIC


def test_an_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="no attribute 'summarise'"):
        kernelscope.summarise  # noqa: B018


def test_star_import_gives_the_public_names():
    namespace = {}
    exec("from kernelscope import *", namespace)  # noqa: S102
    assert set(namespace) >= PUBLIC


def test_the_version_is_the_distributions():
    from importlib.metadata import version

    assert kernelscope.__version__ == version("kernelscope")


@pytest.mark.parametrize("code", ["import kernelscope", "import kernelscope.cli"])
def test_importing_loads_nothing_heavy(code):
    assert modules_after(code) == set()


def test_help_answers_without_loading_anything_heavy():
    code = (
        "from click.testing import CliRunner; from kernelscope.cli import main; "
        "assert CliRunner().invoke(main, ['summarize', '--help']).exit_code == 0"
    )
    assert modules_after(code) == set()


def test_reading_a_trace_loads_neither_pandas_nor_pyarrow(write, run_export):
    code = f"import kernelscope; kernelscope.summarize({str(write(run_export))!r})"
    loaded = modules_after(code)
    assert "polars" in loaded
    assert not loaded & {"pandas", "pyarrow", "rich", "sqlite_utils"}


def test_every_error_derives_from_one_root():
    errors = [value for value in vars(kernelscope.errors).values() if isinstance(value, type)]
    assert len(errors) > 5
    assert all(issubclass(error, kernelscope.errors.KernelscopeError) for error in errors)


def test_an_error_shows_its_message_and_its_hint():
    error = kernelscope.errors.ExportError("It is so.", hint="Do this.")
    assert (error.message, error.hint, str(error)) == (
        "It is so.",
        "Do this.",
        "It is so. Do this.",
    )
    assert str(kernelscope.errors.ExportError("It is so.")) == "It is so."


def test_the_package_is_typed():
    from importlib.resources import files

    assert files("kernelscope").joinpath("py.typed").is_file()
