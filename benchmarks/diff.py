"""Time and memory of ``kernelscope diff`` on two repeated traces.

usage: python benchmarks/diff.py BEFORE AFTER [--times 27] [--runs 5]

Each trace is repeated along the time axis as in ``summarize.py``. Every run is a process of its
own, on files that are in the page cache.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
from pathlib import Path

from summarize import measure, tile


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("before", type=Path)
    parser.add_argument("after", type=Path)
    parser.add_argument("--times", type=int, default=27)
    parser.add_argument("--runs", type=int, default=5)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        traces = []
        for number, trace in enumerate((arguments.before, arguments.after)):
            traces.append(Path(folder) / f"tiled{number}.sqlite")
            tile(trace, traces[-1], arguments.times)
        command = [sys.executable, "-m", "kernelscope", "diff", *map(str, traces)]
        runs = [measure(command) for _ in range(arguments.runs + 1)][1:]
    seconds = statistics.median(one.seconds for one in runs)
    print(f"diff: {seconds:.2f} s, {max(one.megabytes for one in runs):.0f} MB at most")


if __name__ == "__main__":
    main()
