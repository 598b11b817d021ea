"""The documentation: examples run, generated pages are up to date, everything is mentioned."""

import contextlib
import io
import os
import re
import shlex
from pathlib import Path

import pytest
from click.testing import CliRunner

import kernelscope
from kernelscope import errors
from kernelscope.cli import main
from kernelscope.context import METHODS
from kernelscope.rules import load_rules
from kernelscope.summary.figures import Left, PhaseSummary, Rank

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
FIXTURE = ROOT / "fixtures" / "exports" / "2023.4" / "qwen35-27b_b1.sqlite"


def blocks(language):
    return [
        pytest.param(block, id=f"{page.name}-{number}")
        for page in PAGES
        for number, (kind, block) in enumerate(BLOCK.findall(page.read_text("utf-8")))
        if kind == language
    ]


@pytest.mark.parametrize("block", blocks("python"))
def test_python_examples_run(block, monkeypatch):
    monkeypatch.chdir(ROOT)
    block = block.replace("trace.sqlite", os.fspath(FIXTURE))
    with contextlib.redirect_stdout(io.StringIO()):
        exec(compile(block, "example", "exec"), {})  # noqa: S102


@pytest.mark.parametrize("block", blocks("sh"))
def test_commands_run(block, monkeypatch):
    """Also the last part of the README's set-up lines; installing is what CI does."""
    monkeypatch.chdir(ROOT)
    for line in block.strip().splitlines():
        words = shlex.split(line.split("&&")[-1])
        if Path(words[0]).name == "kernelscope":
            done = CliRunner().invoke(main, words[1:])
            assert done.exit_code == 0, done.output
        else:
            assert line.startswith(("python3 -m venv", "pip install kernelscope")), line


@pytest.mark.parametrize("block", blocks("toml"))
def test_rules_in_the_documentation_are_sound(block, tmp_path):
    path = tmp_path / "mine.toml"
    path.write_text(block)
    load_rules(path)


def test_the_page_of_categories_is_printed_from_the_data():
    printed = CliRunner().invoke(main, ["categories", "--format", "markdown"]).stdout
    assert (ROOT / "docs" / "categories.md").read_text("utf-8").endswith(printed)


def test_every_command_and_option_is_documented():
    text = "\n".join(page.read_text("utf-8") for page in PAGES)
    for name, command in main.commands.items():
        assert f"kernelscope {name}" in text
        assert command.help
        assert "Example: kernelscope" in command.help


def test_every_error_is_documented():
    page = (ROOT / "docs" / "errors.md").read_text("utf-8")
    kinds = [kind for kind in vars(errors).values() if isinstance(kind, type)]
    assert not [kind.__name__ for kind in kinds if kind.__name__ not in page]


def test_every_public_name_is_in_the_reference():
    page = (ROOT / "docs" / "api.md").read_text("utf-8")
    shown = re.findall(r"^::: kernelscope\.(\w+)$", page, re.MULTILINE)
    assert sorted(shown) == sorted(set(kernelscope.__all__) - {"__version__"})


def test_every_page_is_in_the_navigation():
    navigation = (ROOT / "mkdocs.yml").read_text("utf-8").partition("\nnav:\n")[2]
    pages = re.findall(r": (\S+\.md)$", navigation, re.MULTILINE)
    assert sorted(pages) == sorted(page.name for page in (ROOT / "docs").glob("*.md"))


def test_every_method_of_the_context_is_documented():
    page = (ROOT / "docs" / "rules.md").read_text("utf-8")
    assert not [method for method in METHODS if f"`{method}`" not in page]


@pytest.mark.parametrize("noun", [PhaseSummary, Rank, Left])
def test_every_json_key_is_documented(noun):
    page = (ROOT / "docs" / "json.md").read_text("utf-8")
    assert not [field for field in noun.__dataclass_fields__ if f"`{field}`" not in page]


def test_the_newest_entry_of_the_changelog_is_this_version():
    text = (ROOT / "CHANGELOG.md").read_text("utf-8")
    newest = re.search(r"^## \[([^\]]+)\]", text, re.MULTILINE)[1]
    assert newest in ("Unreleased", kernelscope.__version__)
    assert "### Rules" in text
    assert load_rules().version in text
