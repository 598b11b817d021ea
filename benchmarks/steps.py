"""What finding steps costs, beside reading the kernel table: processor and wall time.

usage: python benchmarks/steps.py [TRACE] [--times 134] [--runs 5]

The trace is repeated along the time axis as in summarize.py. All methods and the reading take turns
in one process; processor time is that of all its threads, so a busy machine disturbs it little.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path

from summarize import FIXTURE, tile

from kernelscope import frames, read_export, split_steps
from kernelscope.steps import METHODS
from kernelscope.steps.found import Declined
from kernelscope.trace import Trace


def main() -> None:
    arguments = parse_arguments()
    with tempfile.TemporaryDirectory(dir=arguments.scratch) as folder:
        path = Path(folder) / "tiled.sqlite"
        tile(arguments.trace, path, arguments.times)
        trace = read_export(path)
        kernels = sum(trace.map_rows("kernels", ["start_ns"], len))
        print(f"{kernels:,} kernels, {split_steps(trace).evidence}\n")
        table(trace, arguments.runs)


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("trace", type=Path, nargs="?", default=FIXTURE, help="default: a fixture")
    parser.add_argument("--times", type=int, default=134, help="how often to repeat it")
    parser.add_argument("--runs", type=int, default=5, help="of each, in turn (default: 5)")
    parser.add_argument("--scratch", type=Path, help="where the tiled trace is put meanwhile")
    return parser.parse_args()


def table(trace: Trace, runs: int) -> None:
    """Medians of each, and what each method found."""
    everything = list(frames.KERNELS)
    work: dict[str, Callable[[], object]] = {
        "read the kernel table": lambda: trace.map_rows("kernels", everything, len)
    }
    for name, method in METHODS.items():
        work[name] = lambda method=method: method(trace)
    measured, outcomes = defaultdict(list), {}
    for _ in range(runs):
        for name, job in work.items():
            wall, processor = time.perf_counter(), time.process_time()
            outcomes[name] = job()
            measured[name].append((time.process_time() - processor, time.perf_counter() - wall))
    print("| | processor, s | wall, s | found |")
    print("|---|---:|---:|---|")
    for name, times in measured.items():
        processor_s, wall_s = (statistics.median(column) for column in zip(*times, strict=True))
        print(f"| {name} | {processor_s:.2f} | {wall_s:.2f} | {found(outcomes[name])} |")


def found(outcome: object) -> str:
    if isinstance(outcome, Declined):
        return f"declined: {outcome.reason}"
    return str(getattr(outcome, "evidence", ""))


if __name__ == "__main__":
    main()
