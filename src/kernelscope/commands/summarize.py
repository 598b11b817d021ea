"""``kernelscope summarize``."""

from __future__ import annotations

from pathlib import Path

import click

from kernelscope.commands.options import Reading, output_options, parse_share, reading_options
from kernelscope.commands.output import print_result

# Names, not imports: the table behind them needs polars. A test holds them equal to FORMATS.
FORMATS = ("text", "json", "csv", "markdown", "parquet", "sqlite")
BY = ("category", "family", "kernel", "layer")
PHASES = ("decode", "prefill", "mixed", "trace")


@click.command(short_help="Kernels per step, times and shares of a trace.")
@click.argument("trace", type=click.Path(path_type=Path))
@click.option("--format", "format_", type=click.Choice(FORMATS), default="text", show_default=True)
@click.option("--phase", type=click.Choice(PHASES), help="Only this phase.")
@click.option(
    "--by",
    type=click.Choice(BY),
    default="category",
    show_default=True,
    help="What a row of the tables stands for.",
)
@click.option(
    "--model-config",
    type=click.Path(path_type=Path),
    help="With --by layer: a Hugging Face config.json to check the layers against.",
)
@click.option(
    "--max-unknown",
    callback=parse_share,
    help="Exit with 1 if unknown kernels take more than this share of a phase, e.g. 1%.",
)
@output_options
@reading_options
def summarize(
    trace: Path,
    format_: str,
    output: Path | None,
    phase: str | None,
    by: str,
    model_config: Path | None,
    max_unknown: float | None,
    reading: Reading,
    *,
    force: bool,
) -> None:
    """Summarize TRACE per phase: kernels per step, times, and shares per category.

    TRACE is an nsys SQLite export (nsys export --type sqlite REPORT.nsys-rep), or the report
    itself where nsys is on the path.

    Example: kernelscope summarize trace.sqlite --phase decode --format json
    """
    from kernelscope.rendering import BINARY_FORMATS, render, write_summary
    from kernelscope.rendering.text import print_summary
    from kernelscope.summary import check_layers, check_unknown
    from kernelscope.writing import check_target

    if format_ in BINARY_FORMATS and output is None:
        raise click.UsageError(f"--format {format_} writes a binary file: give its name with -o.")
    if by != "layer" and model_config is not None:
        raise click.UsageError("--model-config goes with --by layer.")
    if by == "layer" and reading.split_by is not None:
        raise click.UsageError("--by layer does not go with --split-by.")
    if output is not None:
        check_target(output, overwrite=force)
    summary = reading.summarize(trace, layers=by == "layer")
    if phase is not None:
        summary = summary.only(phase)
    if model_config is not None:
        summary = check_layers(summary, model_config)
    if output is None:
        print_result(
            format_,
            lambda: render(summary, format_, by=by),
            lambda console: print_summary(summary, by, console),
        )
    else:
        write_summary(summary, output, format_, by=by, overwrite=force)
        click.echo(f"wrote {output}", err=True)
    if max_unknown is not None:
        check_unknown(summary, max_unknown)
