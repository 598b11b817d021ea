"""What a capture needs of the machine, looked at before anything is started."""

from __future__ import annotations

import json
import platform
import shutil
import subprocess
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from kernelscope.capture.config import CaptureConfig
from kernelscope.capture.versions import parse_version
from kernelscope.errors import CaptureError

_LEAST_NSYS = (2022, 4, 0)
"""The first with ``repeat`` capture ranges and node-level graph tracing together."""
_LEAST_FREE_BYTES = 2_000_000_000
_TIMEOUT_S = 60
_GPU_FIELDS = (
    "index",
    "name",
    "driver_version",
    "memory.total",
    "memory.used",
    "clocks.sm",
    "clocks.mem",
    "clocks.max.sm",
    "power.limit",
    "persistence_mode",
)
_VERSIONS = (
    "import importlib.metadata as m, json, sys\n"
    "def of(name):\n"
    "    try: return m.version(name)\n"
    "    except m.PackageNotFoundError: return None\n"
    "names = ('vllm', 'torch', 'triton', 'transformers', 'flashinfer-python')\n"
    "print(json.dumps({'python': sys.version.split()[0], **{n: of(n) for n in names}}))\n"
)


@dataclass(frozen=True)
class Host:
    """The machine as it was found.

    Attributes:
        nsys: nsys's version.
        packages: version of each package of the Python that has vLLM; None for what is missing.
        gpus: what ``nvidia-smi`` says of each GPU, by its own names of the fields.
        system: the kernel's name, release and machine.
    """

    nsys: str
    packages: dict[str, str | None]
    gpus: list[dict[str, str]]
    system: str

    def to_dict(self) -> dict[str, Any]:
        """Plain data for ``run.json``."""
        return asdict(self)


def look_at_host(config: CaptureConfig) -> Host:
    """Check that a capture can start, and note what it starts on.

    Raises:
        CaptureError: nsys, vLLM or a GPU is missing or too old, or the disk is nearly full.
    """
    nsys = _nsys(config.nsys)
    packages = _packages(config.python)
    gpus = _gpus()
    if len(gpus) < config.tensor_parallel:
        raise CaptureError(
            f"{config.tensor_parallel} GPUs are asked for and {len(gpus)} found.",
            hint="Use a smaller --tensor-parallel.",
        )
    free = shutil.disk_usage(_existing(config.folder)).free
    if free < _LEAST_FREE_BYTES:
        raise CaptureError(
            f"{config.folder} has {free / 1e9:.1f} GB free; a capture needs "
            f"{_LEAST_FREE_BYTES / 1e9:.0f} GB.",
            hint="Make room, or choose another folder with --folder.",
        )
    return Host(nsys, packages, gpus, " ".join(platform.uname()[i] for i in (0, 2, 4)))


def _existing(folder: Path) -> Path:
    """The folder, or the nearest one above that is there."""
    return next(path for path in (folder, *folder.absolute().parents) if path.exists())


def _nsys(program: str) -> str:
    said = _ask(
        [program, "--version"],
        f"nsys ({program})",
        "Install Nsight Systems, or give its path with --nsys.",
    )
    version = parse_version(said)
    if version is None or version < _LEAST_NSYS:
        least = ".".join(map(str, _LEAST_NSYS[:2]))
        raise CaptureError(
            f"{program} says it is {said.strip() or 'nothing'}; captures need {least} or newer.",
            hint="Give a newer one with --nsys.",
        )
    return said.strip().removeprefix("NVIDIA Nsight Systems version ").strip()


def _packages(python: str) -> dict[str, str | None]:
    said = _ask(
        [python, "-c", _VERSIONS],
        f"Python ({python})",
        "Give the Python that has vLLM with --python.",
    )
    packages: dict[str, str | None] = json.loads(said.strip().splitlines()[-1])
    if packages["vllm"] is None:
        raise CaptureError(
            f"{python} has no vLLM.", hint="Give the Python that has it with --python."
        )
    return packages


def _gpus() -> list[dict[str, str]]:
    query = ["nvidia-smi", f"--query-gpu={','.join(_GPU_FIELDS)}", "--format=csv,noheader"]
    said = _ask(query, "nvidia-smi", "Captures need an NVIDIA GPU and its driver.")
    rows = [line.split(", ") for line in said.strip().splitlines()]
    gpus = [dict(zip(_GPU_FIELDS, row, strict=False)) for row in rows if len(row) > 1]
    if not gpus:
        raise CaptureError("nvidia-smi lists no GPU.", hint="Check the driver and the container.")
    return gpus


def _ask(command: list[str], what: str, hint: str) -> str:
    try:
        done = subprocess.run(
            command,
            capture_output=True,
            text=True,
            errors="replace",
            check=False,
            stdin=subprocess.DEVNULL,
            timeout=_TIMEOUT_S,
        )
    except FileNotFoundError as error:
        raise CaptureError(f"{what} was not found.", hint=hint) from error
    except (OSError, subprocess.TimeoutExpired) as error:
        raise CaptureError(f"{what} cannot be run: {error}.", hint=hint) from error
    if done.returncode != 0:
        said = (done.stderr + done.stdout).strip().splitlines()
        last = said[-1] if said else "it wrote nothing"
        raise CaptureError(f"{what} failed with exit code {done.returncode}: {last}", hint=hint)
    return done.stdout
