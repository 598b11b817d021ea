"""How well the built-in rules classify labelled kernel names.

    python benchmarks/classification_confusion.py NAMES.csv [-o REPORT.md]

NAMES.csv has the columns `name` and `category`, and may have `confidence`: rows of confidence "low"
are left out. The report is Markdown: the share that is right, the share wrongly called a multiply
or attention, what was taken for what, and the names that went wrong.
"""

import argparse
import sys
import time
from pathlib import Path

import polars as pl

from kernelscope.classification import classify_names
from kernelscope.rules import load_rules
from kernelscope.rules.tables import UNKNOWN

COSTLY = ("gemm", "attention", "moe_gemm")
SHOWN = 100


def scored_names(path: Path) -> pl.DataFrame:
    """Return the columns `name` and `category` (String) of the rows that count."""
    labels = pl.read_csv(path, infer_schema=False)
    if "confidence" in labels.columns:
        labels = labels.filter(pl.col("confidence") != "low")
    return labels.select("name", "category")


def results(labels: pl.DataFrame) -> pl.DataFrame:
    """Return `name`, `category` (the label), `got` and `rule_id` (String, null when unknown)."""
    names = labels.select("name", short_name=pl.lit(None, dtype=pl.String))
    got = classify_names(names, load_rules())
    return labels.with_columns(got["category"].alias("got"), got["rule_id"])


def report(results: pl.DataFrame, seconds: float) -> str:
    """Return the whole report as Markdown."""
    wrong = results.filter(pl.col("got") != pl.col("category"))
    parts = [
        f"# Classification by rules, version {load_rules().version}",
        headline(results, wrong, seconds),
        "## By category\n\n" + table(by_category(results)),
        "## What was taken for what\n\n" + table(confusions(wrong)),
        "## Names that went wrong\n\n" + table(examples(wrong)),
    ]
    return "\n\n".join(parts) + "\n"


def headline(results: pl.DataFrame, wrong: pl.DataFrame, seconds: float) -> str:
    """Return the figures that the targets are about."""
    whole = max(results.height, 1)
    costly = wrong.filter(pl.col("got").is_in(COSTLY)).height
    unknown = wrong.filter(pl.col("got") == UNKNOWN).height
    return "\n".join(
        [
            f"- names: {results.height}",
            f"- right: {1 - wrong.height / whole:.2%} (target: at least 97 %)",
            f"- wrong as {', '.join(COSTLY)}: {costly / whole:.2%} (target: at most 1 %)",
            f"- unknown: {unknown / whole:.2%}",
            f"- time: {seconds:.2f} s",
        ]
    )


def by_category(results: pl.DataFrame) -> pl.DataFrame:
    """Return names, hits and precision per category, most names first."""
    right = (pl.col("got") == pl.col("category")).sum().alias("right")
    labelled = results.group_by("category").agg(pl.len().alias("names"), right)
    given = results.group_by("got").agg(pl.len().alias("given"))
    return (
        labelled.join(given, left_on="category", right_on="got", how="left")
        .with_columns(pl.col("given").fill_null(0))
        .with_columns(
            (100 * pl.col("right") / pl.col("names")).round(1).alias("found %"),
            (100 * pl.col("right") / pl.col("given")).round(1).alias("precise %"),
        )
        .sort("names", "category", descending=[True, False])
    )


def confusions(wrong: pl.DataFrame) -> pl.DataFrame:
    """Return how often one category was taken for another, most often first."""
    counts = wrong.group_by("category", "got").agg(pl.len().alias("names"))
    return counts.sort("names", "category", "got", descending=[True, False, False])


def examples(wrong: pl.DataFrame) -> pl.DataFrame:
    """Return names that went wrong, cut short for reading."""
    cut = pl.col("name").str.slice(0, 90).str.replace_all("|", "\\|", literal=True)
    return wrong.sort("category", "got", "name").head(SHOWN).with_columns(cut)


def table(frame: pl.DataFrame) -> str:
    """Return a frame as a Markdown table."""
    rows = [frame.columns, ["---"] * frame.width]
    rows += [["" if value is None else str(value) for value in row] for row in frame.iter_rows()]
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def main() -> None:
    parser = argparse.ArgumentParser(description="Confusion table of the built-in rules.")
    parser.add_argument("names", type=Path)
    parser.add_argument("-o", "--output", type=Path)
    arguments = parser.parse_args()
    labels = scored_names(arguments.names)
    load_rules()
    start = time.perf_counter()
    classified = results(labels)
    text = report(classified, time.perf_counter() - start)
    if arguments.output is None:
        sys.stdout.write(text)
    else:
        arguments.output.write_text(text, "utf-8")
        print(f"Wrote {arguments.output}.")


if __name__ == "__main__":
    main()
