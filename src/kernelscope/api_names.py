"""Which CUDA API calls start kernels or mark parts of a run; shared by the reader and the steps.

Patterns are SQLite GLOBs joined by ``|``. Names carry a version suffix
(``cudaLaunchKernel_v7000``) and, with per-thread default streams, ``_ptsz``; the runtime and
the driver API both launch.
"""

from __future__ import annotations

GRAPH_LAUNCH = "cudaGraphLaunch*|cuGraphLaunch*"
# Not cudaLaunch* as a whole: cudaLaunchHostFunc calls back on the CPU.
LAUNCH = (
    "cudaLaunchKernel*|cudaLaunchCooperative*|cudaLaunch_v*|cuLaunchKernel*|cuLaunchCooperative*"
    f"|cuLaunchGrid*|{GRAPH_LAUNCH}"
)

PROFILER_START = "cudaProfilerStart*|cuProfilerStart*"
PROFILER_STOP = "cudaProfilerStop*|cuProfilerStop*"
WAIT = (
    "cudaStreamSynchronize*|cudaEventSynchronize*|cudaDeviceSynchronize*"
    "|cuStreamSynchronize*|cuEventSynchronize*|cuCtxSynchronize*"
)
GRAPH_INSTANTIATE = "cudaGraphInstantiate*|cuGraphInstantiate*"


def as_regex(pattern: str) -> str:
    """The same pattern as an anchored regular expression."""
    return "^(?:" + pattern.replace("*", "") + ")"
