"""``kernelscope capture``."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from kernelscope.commands.options import parse_numbers

if TYPE_CHECKING:
    from kernelscope.capture import CaptureConfig

# Names, not imports; a test holds them equal to the library's.
MODES = ("graphs", "eager")


@click.command(short_help="Run vLLM under nsys and leave a run folder.")
@click.argument("model")
@click.argument("vllm_args", nargs=-1, type=click.UNPROCESSED)
@click.option(
    "--folder",
    "folder",
    type=click.Path(path_type=Path),
    default=Path("runs"),
    show_default=True,
    help="The folder in which the run folder is made.",
)
@click.option("--label", default="capture", show_default=True, help="Ends the run folder's name.")
@click.option(
    "--mode",
    "modes",
    type=click.Choice(MODES),
    multiple=True,
    default=MODES,
    show_default=True,
    help="With CUDA graphs, or eager; may be given twice.",
)
@click.option(
    "--batch",
    "batches",
    callback=parse_numbers,
    default="1",
    show_default=True,
    help="Requests per batch, e.g. 1,8.",
)
@click.option("--input-len", type=int, default=512, show_default=True, help="Tokens of a prompt.")
@click.option("--output-len", type=int, default=32, show_default=True, help="Tokens generated.")
@click.option("--dtype", default="bfloat16", show_default=True)
@click.option("--quantization", help="As vLLM names it, if the model's configuration does not.")
@click.option(
    "--load-format",
    default="auto",
    show_default=True,
    help="dummy needs no weights: random ones run the same kernels.",
)
@click.option("--tensor-parallel", type=int, default=1, show_default=True, help="GPUs per layer.")
@click.option(
    "--prompt",
    type=click.Path(path_type=Path),
    help="A text to take the prompt from, in place of random token ids.",
)
@click.option("--seed", type=int, default=0, show_default=True, help="Of the random token ids.")
@click.option("--warmups", type=int, default=3, show_default=True, help="Batches before recording.")
@click.option(
    "--repeats",
    type=int,
    default=5,
    show_default=True,
    help="Runs without the profiler that give the step time; 0 for none.",
)
@click.option("--nsys", default="nsys", show_default=True, help="The nsys to use.")
@click.option(
    "--python", default=sys.executable, help="The Python that has vLLM; by default this one."
)
@click.option("--keep-report", is_flag=True, help="Keep the .nsys-rep beside its export.")
@click.option(
    "--deadline-s",
    type=float,
    default=1800.0,
    show_default=True,
    help="Give up a stage after so many seconds.",
)
@click.option("--dry-run", is_flag=True, help="Print the command lines and start nothing.")
@click.pass_context
def capture(ctx: click.Context, /, *, dry_run: bool, **options: Any) -> None:
    """Capture MODEL: time a workload without the profiler, record it with nsys, and analyze it.

    MODEL is a Hugging Face name or a folder with config.json. What comes behind -- is passed to
    vLLM as it is.

    Example: kernelscope capture models/llama-8b --load-format dummy --batch 1,8
    """
    from kernelscope.capture import CaptureConfig
    from kernelscope.capture import dry_run as plan

    options["modes"] = tuple(dict.fromkeys(options["modes"]))
    config = CaptureConfig(**options)
    if dry_run:
        for stage in plan(config):
            click.echo(stage.line)
        return
    ctx.exit(_run(config))


def _run(config: CaptureConfig) -> int:
    """Capture and analyze; the exit code."""
    from kernelscope.capture import capture as run_capture
    from kernelscope.rendering.progress import StageProgress
    from kernelscope.rendering.runs import render_text
    from kernelscope.runs import analyze_run

    with StageProgress() as progress:
        run = run_capture(config, progress=progress.update)
    click.echo(f"wrote {run}", err=True)
    analysis = analyze_run(run)
    click.echo(render_text(analysis, shutil.get_terminal_size().columns), nl=False)
    return 1 if analysis.problems else 0
