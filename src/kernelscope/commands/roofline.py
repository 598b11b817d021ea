"""``kernelscope roofline``."""

from __future__ import annotations

from pathlib import Path

import click

from kernelscope.commands.options import Reading, output_options, reading_options
from kernelscope.commands.output import deliver

# Names, not imports; a test holds them equal to what they name.
FORMATS = ("text", "json", "csv", "markdown")
WEIGHTS = (
    "bf16", "fp8", "fp8_block", "fp8_weight_only", "int8", "int8_weight_only", "int4", "awq",
    "nvfp4", "nvfp4_weight_only", "mxfp4",
)  # fmt: skip
CACHES = ("auto", "bf16", "fp8")
PHASES = ("decode", "prefill", "mixed")


@click.command(short_help="How near the kernels come to what the GPU can do.")
@click.argument("trace", type=click.Path(path_type=Path))
@click.option(
    "--model-config",
    type=click.Path(path_type=Path),
    required=True,
    help="The model's Hugging Face config.json, or the folder that holds it.",
)
@click.option(
    "--tensor-parallel",
    type=click.IntRange(min=1),
    default=1,
    show_default=True,
    help="How many GPUs shared each layer.",
)
@click.option(
    "--quantization",
    type=click.Choice(WEIGHTS),
    help="Format of the weights, where the run made it and the configuration does not say it.",
)
@click.option(
    "--kv-cache-dtype",
    "kv_cache",
    type=click.Choice(CACHES),
    default="auto",
    show_default=True,
    help="What the KV cache was kept in; auto is as the configuration says.",
)
@click.option(
    "--context-len",
    type=click.FloatRange(min=0, min_open=True),
    help="Tokens in the KV cache per generating request (mean), where labels do not say.",
)
@click.option(
    "--bandwidth-gbs",
    type=click.FloatRange(min=0, min_open=True),
    help="Memory bandwidth of the GPU in GB/s, in place of the export's.",
)
@click.option(
    "--peak-tflops",
    type=click.FloatRange(min=0, min_open=True),
    help="Dense tensor-core peak of the GPU in TFLOP/s, in place of the datasheet's.",
)
@click.option("--phase", type=click.Choice(PHASES), help="Only this phase.")
@click.option("--format", "format_", type=click.Choice(FORMATS), default="text", show_default=True)
@output_options
@reading_options
def roofline(
    trace: Path,
    model_config: Path,
    phase: str | None,
    format_: str,
    output: Path | None,
    reading: Reading,
    *,
    force: bool,
    **run: object,
) -> None:
    """Hold the matrix multiplies of TRACE, attention and recurrence against the GPU's ceilings.

    Bytes and operations follow from the model's configuration; the kernels are tied to them by
    their order in each layer. Prints achieved TB/s and TFLOP/s, the bound that applies, and how
    far the step is from the least time that it could take.

    Example: kernelscope roofline trace.sqlite --model-config config.json --context-len 528
    """
    from kernelscope.ceilings import RunFacts
    from kernelscope.ceilings import roofline as find_roofline
    from kernelscope.rendering.roofline import ROOFLINE_FORMATS, print_roofline
    from kernelscope.writing import check_target

    if reading.split_by is not None:
        raise click.UsageError("roofline does not go with --split-by.")
    if output is not None:
        check_target(output, overwrite=force, trace=trace)
    found = reading.apply(find_roofline, trace, model_config, run=RunFacts(**run))  # type: ignore[arg-type]
    if phase is not None:
        found = found.only(phase)
    deliver(
        format_,
        lambda: ROOFLINE_FORMATS[format_](found),
        lambda console: print_roofline(found, console),
        output,
        force=force,
    )
