"""``kernelscope record``."""

from __future__ import annotations

from pathlib import Path

import click

from kernelscope.commands.options import Reading, database_option, reading_options


@click.command(short_help="Put traces into a database of runs.")
@click.argument("traces", type=click.Path(path_type=Path), nargs=-1, required=True)
@database_option
@click.option(
    "--label",
    "labels",
    multiple=True,
    metavar="TEXT|KEY=VALUE",
    help="What to call these runs, e.g. nightly or engine=0.12; may be given several times.",
)
@reading_options
def record(traces: tuple[Path, ...], db: Path, labels: tuple[str, ...], reading: Reading) -> None:
    """Put TRACES into a database of runs, for kernelscope history, Datasette or plain SQL.

    A run is known by its capture: the same trace again changes nothing, with other rules or
    another choice of steps its rows are replaced.

    Example: kernelscope record trace.sqlite --db runs.db --label engine=0.12
    """
    from kernelscope.records import check_record
    from kernelscope.records import record as record_summary

    told = _parse(labels)
    check_record(db)
    for trace in traces:
        done = record_summary(reading.summarize(trace), db, labels=told)
        click.echo(f"{trace}: run {done.run_id} {done.outcome}", err=True)


def _parse(labels: tuple[str, ...]) -> dict[str, str]:
    """``engine=0.12`` as a key with a value, ``nightly`` as a key with none."""
    told = {}
    for label in labels:
        key, _, value = label.partition("=")
        if not key.strip():
            raise click.BadParameter(f"{label!r} is not a label such as nightly or engine=0.12.")
        told[key.strip()] = value.strip()
    return told
