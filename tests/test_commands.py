"""``classify``, ``categories`` and ``rules`` on the command line, and ``--max-unknown``."""

import csv
import io
import json

import pytest
from click.testing import CliRunner

from export_builder import DECODE
from kernelscope.cli import main
from kernelscope.rules import load_rules

GEMM = "nvjet_sm90_tst_64x8_64x16_4x1_v_bz_TNT"
RULE = (
    '[[rule]]\nid = "mine"\ncategory = "{category}"\npattern = "^my_"\nexamples = ["my_kernel"]\n'
)


def run(*arguments, **options):
    return CliRunner().invoke(main, list(map(str, arguments)), **options)


def test_classify_answers_in_the_order_given():
    found = run("classify", "splitKreduce_kernel", GEMM, "no_such_thing", "--format", "csv")
    rows = list(csv.DictReader(io.StringIO(found.stdout)))
    assert list(rows[0]) == ["name", "category", "family", "rule", "method"]
    assert [row["category"] for row in rows] == ["splitk_reduce", "gemm", "unknown"]
    assert rows[2]["rule"] == ""


def test_classify_reads_names_from_standard_input_and_a_file(tmp_path):
    file = tmp_path / "names.txt"
    file.write_text(f"{GEMM}\n\n")
    found = run("classify", "a", "-", "--file", file, "--format", "json", input="b\nc\n")
    assert [row["name"] for row in json.loads(found.stdout)] == ["a", "b", "c", GEMM]


def test_classify_keeps_a_name_that_comes_twice():
    assert len(json.loads(run("classify", GEMM, GEMM, "--format", "json").stdout)) == 2


def test_classify_without_a_name_is_a_usage_error():
    found = run("classify")
    assert found.exit_code == 2
    assert "Give a kernel name" in found.stderr


def test_classify_shows_escape_sequences_harmless():
    found = run("classify", "\x1b[31mred")
    assert found.exit_code == 0
    assert "\x1b" not in found.stdout


def test_explain_shows_the_rules_tried_and_the_winner():
    lines = run("classify", "splitKreduce_kernel", "--explain").stdout.splitlines()
    tried = [line for line in lines if line.rstrip().endswith(" no")]
    assert len(tried) > 5
    assert lines[-1].endswith("splitk-reduce (base) yes: splitk_reduce")


def test_explain_says_when_no_rule_matches():
    lines = run("classify", "no_such_thing", "--explain").stdout.splitlines()
    assert lines[-1] == "  no rule matches: unknown"
    assert len(lines) > len(load_rules().rules)


def test_categories_has_every_category_with_its_definition():
    table = run("categories").stdout
    entries = json.loads(run("categories", "--format", "json").stdout)
    assert [entry["name"] for entry in entries] == [c.name for c in load_rules().categories]
    for entry in entries:
        assert entry["name"] in table
        assert entry["definition"].endswith(".")


def test_rules_are_printed_in_the_order_in_which_they_are_tried():
    lines = run("rules").stdout.splitlines()
    ids = [line.split()[1] for line in lines if line[:1].isdigit()]
    assert ids == [rule.id for rule in load_rules().rules]


def test_rules_check_counts_the_built_in_rules():
    found = run("rules", "--check")
    assert found.exit_code == 0
    assert found.stdout.startswith(f"{len(load_rules().rules)} rules are sound")


def test_own_rules_are_tried_first(tmp_path):
    mine = tmp_path / "mine.toml"
    mine.write_text(RULE.format(category="vision"))
    found = run("classify", "my_gemm_kernel", "--rules", mine, "--format", "json")
    assert json.loads(found.stdout)[0]["rule"] == "mine"
    assert "mine.toml over the built-in table" in run("rules", "--check", "--rules", mine).stdout


def test_a_rules_file_that_cannot_be_used_is_one_line(tmp_path):
    mine = tmp_path / "mine.toml"
    mine.write_text(RULE.format(category="nonsense"))
    found = run("rules", "--check", "--rules", mine)
    assert found.exit_code == 1
    assert found.stderr.count("\n") == 1
    assert "mine.toml: rule 'mine': there is no category 'nonsense'" in found.stderr


@pytest.fixture
def trace(export, write):
    """One decode step of 100 µs, 2 µs of it in a kernel that no rule knows."""
    return write(export.step(DECODE, [(GEMM, 98), ("zzz_mystery", 2)]))


@pytest.mark.parametrize(("most", "code"), [("1%", 1), ("0.01", 1), ("2%", 0), ("0.5", 0)])
def test_max_unknown_is_an_exit_code(trace, most, code):
    found = run("summarize", trace, "--max-unknown", most)
    assert found.exit_code == code
    assert ("zzz_mystery" in found.stderr) == bool(code)


@pytest.mark.parametrize("most", ["half", "-1%", "101%", ""])
def test_max_unknown_must_be_a_share(trace, most):
    assert run("summarize", trace, "--max-unknown", most).exit_code == 2


def test_unknown_kernels_are_named_in_a_warning(trace):
    assert "unknown kernels are 2.00% of decode kernel time: zzz_mystery." in run(
        "summarize", trace
    ).stdout.replace("\n", " ")


def test_own_rules_reach_the_summary(tmp_path, export, write):
    mine = tmp_path / "mine.toml"
    mine.write_text(RULE.format(category="moe"))
    trace = write(export.step(DECODE, [("my_kernel", 1)]))
    found = json.loads(run("summarize", trace, "--rules", mine, "--format", "json").stdout)
    assert found["phases"][0]["categories"][0]["category"] == "moe"
    assert found["rules_version"].endswith("+ mine.toml")


def test_inductor_sources_that_are_not_there_are_one_line(trace, tmp_path):
    found = run("summarize", trace, "--inductor-cache", tmp_path / "nowhere")
    assert found.exit_code == 1
    assert found.stderr.startswith("kernelscope: There is no folder")
