"""Running vLLM under nsys, so that the numbers of the analysis mean what they say.

Imports neither vLLM nor torch: those are in the Python that runs the workload. A capture leaves
a run folder that :func:`kernelscope.analyze_run` reads::

    from kernelscope.capture import CaptureConfig, capture

    run = capture(CaptureConfig(model="models/llama-8b", load_format="dummy", batches=(1, 8)))
"""

from __future__ import annotations

from kernelscope.capture.commands import Stage, plan
from kernelscope.capture.config import EAGER, GRAPHS, MODES, CaptureConfig
from kernelscope.capture.recording import capture, dry_run
from kernelscope.capture.versions import profiling_of

__all__ = [
    "EAGER",
    "GRAPHS",
    "MODES",
    "CaptureConfig",
    "Stage",
    "capture",
    "dry_run",
    "plan",
    "profiling_of",
]
