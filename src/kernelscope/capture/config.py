"""What to capture: a frozen configuration, checked when it is made."""

from __future__ import annotations

import re
import sys
from dataclasses import dataclass
from pathlib import Path

from kernelscope.errors import CaptureError

GRAPHS, EAGER = "graphs", "eager"
MODES = (GRAPHS, EAGER)
_LABEL = re.compile(r"[\w.+-]+")


@dataclass(frozen=True)
class CaptureConfig:
    """One capture: a model, a workload, and how it is run.

    Attributes:
        model: a Hugging Face name, or a folder with ``config.json``.
        folder: the folder in which the run folder is made.
        label: the last part of the run folder's name: letters, digits, ``.``, ``_``, ``+``, ``-``.
        modes: :data:`GRAPHS` (CUDA graphs, vLLM's default), :data:`EAGER`, or both.
        batches: requests per batch; each is a report of its own.
        input_len, output_len: tokens of each prompt, and tokens generated for it (2 at least).
        dtype, quantization, load_format: as vLLM names them; ``dummy`` weights need no files.
        tensor_parallel: GPUs that share each layer.
        prompt: a text to take the prompt from; without it the ids are random.
        seed: of the random prompt ids.
        warmups: batches that run before the window opens.
        repeats: unprofiled runs of each length that the step time is measured with; 0 for none.
        vllm_args: more arguments for vLLM, as its command line takes them.
        nsys: the nsys to use.
        python: the Python that has vLLM.
        keep_report: whether the ``.nsys-rep`` is kept beside its export.
        deadline_s: seconds after which a stage is given up.

    Raises:
        CaptureError: a value cannot be captured with.
    """

    model: str
    folder: Path = Path("runs")
    label: str = "capture"
    modes: tuple[str, ...] = MODES
    batches: tuple[int, ...] = (1,)
    input_len: int = 512
    output_len: int = 32
    dtype: str = "bfloat16"
    quantization: str | None = None
    load_format: str = "auto"
    tensor_parallel: int = 1
    prompt: Path | None = None
    seed: int = 0
    warmups: int = 3
    repeats: int = 5
    vllm_args: tuple[str, ...] = ()
    nsys: str = "nsys"
    python: str = sys.executable
    keep_report: bool = False
    deadline_s: float = 1800.0

    def __post_init__(self) -> None:
        for field, least in (
            ("input_len", 1),
            ("output_len", 2),
            ("tensor_parallel", 1),
            ("warmups", 1),
            ("repeats", 0),
        ):
            if getattr(self, field) < least:
                raise CaptureError(f"{field} is {getattr(self, field)}, less than {least}.")
        if not _LABEL.fullmatch(self.label):
            raise CaptureError(
                f"the label {self.label!r} cannot be part of a folder's name.",
                hint="Use letters, digits, dots, dashes and underscores.",
            )
        if not self.modes or set(self.modes) - set(MODES):
            raise CaptureError(f"modes are {', '.join(self.modes) or 'none'}, not of {MODES}.")
        if not self.batches or min(self.batches) < 1 or len(set(self.batches)) < len(self.batches):
            raise CaptureError(
                f"batches are {self.batches}; expected different numbers of at least 1."
            )

    @property
    def model_name(self) -> str:
        """The model's name without its owner or folder, as it can stand in a file's name."""
        return _as_file_name(Path(self.model).name) or "model"

    def folder_name(self, date: str) -> str:
        """``DATE_MODEL_DTYPE_LABEL``."""
        dtype = _as_file_name(self.quantization or self.dtype)
        return f"{date}_{self.model_name}_{dtype}_{self.label}"


def _as_file_name(text: str) -> str:
    return re.sub(r"[^\w.+-]", "-", text)
