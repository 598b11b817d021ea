"""``kernelscope report``."""

from __future__ import annotations

from pathlib import Path

import click

from kernelscope.commands.options import Reading, load, reading_options


@click.command(short_help="One page with everything, to look at and to share.")
@click.argument("trace", type=click.Path(path_type=Path))
@click.option(
    "-o", "--output", type=click.Path(path_type=Path), required=True, help="The page, e.g. x.html."
)
@click.option(
    "--model-config",
    type=click.Path(path_type=Path),
    help="The model's Hugging Face config.json: adds the roofline and checks the layers.",
)
@click.option("--force", is_flag=True, help="Overwrite the output file if it exists.")
@reading_options
def report(
    trace: Path, output: Path, model_config: Path | None, reading: Reading, *, force: bool
) -> None:
    """Write a self-contained HTML page about TRACE: figures, pictures, kernels and findings.

    Needs the extra: pip install 'kernelscope[report]'.

    Example: kernelscope report trace.sqlite -o report.html
    """
    from kernelscope.ceilings import roofline
    from kernelscope.diagnosis import diagnose
    from kernelscope.rendering.report import Report, render_report
    from kernelscope.summary import check_layers
    from kernelscope.writing import check_target, write_file

    if reading.split_by is not None:
        raise click.UsageError("report does not go with --split-by.")
    check_target(output, overwrite=force, trace=trace)
    summary = reading.summarize(trace, layers=True)
    ceilings = None
    if model_config is not None:
        summary = check_layers(summary, model_config)
        ceilings = reading.apply(roofline, trace, model_config)
    found = diagnose(trace, rules=load(reading.rules_path))
    write_file(output, render_report(Report(summary, found, ceilings)), overwrite=force)
    click.echo(f"wrote {output}", err=True)
