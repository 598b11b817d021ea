"""Programs that stand in for nsys, nvidia-smi and vLLM, so that a capture runs without a GPU.

The workload is the real one, run by this Python; the ``vllm`` that it imports is a package made
here. Each program behaves as ``KS_TRIAL`` says, and notes its arguments in ``KS_NOTES``.
"""

import json
import os
import stat
import sys
from pathlib import Path

NSYS = r"""
import json, os, re, shutil, subprocess, sys
from pathlib import Path
trial = os.environ.get("KS_TRIAL", "")
with open(os.environ["KS_NOTES"], "a") as notes:
    notes.write(json.dumps(["nsys", *sys.argv[1:]]) + "\n")
if sys.argv[1] == "--version":
    if trial == "no version":
        sys.exit("nothing to see")
    version = "2021.3.1.1" if trial == "old nsys" else "2025.3.2.367-253235948738v0"
    print("NVIDIA Nsight Systems version " + version)
    sys.exit(0)
output = next(a for a in sys.argv if a.startswith("--output=")).removeprefix("--output=")
if sys.argv[1] == "export":
    if trial == "disk full":
        sys.exit("write failed: No space left on device")
    if trial != "empty export":
        shutil.copyfile(os.environ["KS_EXPORT"], output)
    sys.exit(0)
if trial == "driver":
    sys.exit(
        "Installed CUDA driver version (13.0) is not supported by this build of Nsight Systems. "
        "Use 2025.3 or newer."
    )
child = next(i for i, a in enumerate(sys.argv) if not a.startswith("-") and i > 1)
code = subprocess.call(sys.argv[child:])
if code:
    sys.exit(code)
batches = int(re.search(r"repeat:(\d+)", " ".join(sys.argv))[1])
if trial == "importer":
    Path(output + ".qdstrm").write_text("x")
    print("Importer binary not found")
    sys.exit(0)
for number in range(1, (0 if trial == "no range" else batches) + 1):
    Path(f"{output}.{number}.nsys-rep").write_text("a report")
"""

SMI = r"""
import os, sys
if os.environ.get("KS_TRIAL") == "no gpu":
    sys.exit("NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver.")
memory, clocks = "143771 MiB, 0 MiB", "1980 MHz, 3201 MHz, 1980 MHz"
print(f"0, NVIDIA H200, 580.95.05, {memory}, {clocks}, 700.00 W, Enabled")
"""

VLLM = r"""
import json, os, subprocess, sys, time
def note(*what):
    with open(os.environ["KS_NOTES"], "a") as notes:
        notes.write(json.dumps(["vllm", *what]) + "\n")
clock = [0.0]
time.perf_counter = lambda: clock[0]  # the machine that runs the tests may be busy
class SamplingParams:
    def __init__(self, **options):
        self.max_tokens = options["max_tokens"]
class LLM:
    def __init__(self, **options):
        trial = os.environ.get("KS_TRIAL", "")
        note("engine", options)
        failures = {
            "memory": "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB",
            "model": "OSError: x/y is not a local folder and is not a valid model identifier",
            "died": "RuntimeError: Engine core initialization failed. See root cause above.",
            "secret": "something else entirely",
        }
        if trial in failures:
            sys.exit(failures[trial])
        if trial == "hang":
            child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
            note("child", child.pid)
            time.sleep(600)
        if cache := os.environ.get("KS_CACHE"):
            print(f"INFO Using cache directory: {cache}/rank_0_0/backbone for vLLM's torch.compile")
    def generate(self, prompts, *, sampling_params, use_tqdm):
        # 20 ms for the prompt and 5 ms for each token after it.
        clock[0] += 0.020 + 0.005 * (sampling_params.max_tokens - 1)
    def start_profile(self):
        note("start")
    def stop_profile(self):
        note("stop")
"""

ARGUMENTS = r"""
import argparse
class EngineArgs:
    def __init__(self, options):
        self.__dict__.update(options)
    @staticmethod
    def add_cli_args(parser):
        names = ("--model", "--dtype", "--load-format", "--quantization")
        for name in (*names, "--profiler-config.profiler"):
            parser.add_argument(name)
        for name in ("--max-model-len", "--tensor-parallel-size"):
            parser.add_argument(name, type=int)
        for name in ("--enforce-eager", "--no-enable-prefix-caching", "--language-model-only"):
            parser.add_argument(name, action="store_true")
        return parser
    @classmethod
    def from_cli_args(cls, args):
        return cls(vars(args))
"""


def install(folder, export, *, vllm="0.24.0"):
    """Put the stand-ins into a folder; the environment that uses them."""
    programs, packages = folder / "bin", folder / "packages"
    programs.mkdir(parents=True)
    for name, text in (("nsys", NSYS), ("nvidia-smi", SMI)):
        path = programs / name
        path.write_text(f"#!{sys.executable}\n{text}")
        path.chmod(path.stat().st_mode | stat.S_IXUSR)
    for name, text in (
        ("vllm/__init__.py", VLLM),
        ("vllm/engine/__init__.py", ""),
        ("vllm/engine/arg_utils.py", ARGUMENTS),
        ("vllm/utils/__init__.py", ""),
        (
            "vllm/utils/argparse_utils.py",
            "from argparse import ArgumentParser as FlexibleArgumentParser\n",
        ),
        (
            f"vllm-{vllm}.dist-info/METADATA",
            f"Metadata-Version: 2.1\nName: vllm\nVersion: {vllm}\n",
        ),
    ):
        path = packages / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    notes = folder / "notes.jsonl"
    notes.touch()
    return {
        "PATH": f"{programs}{os.pathsep}{os.environ['PATH']}",
        "PYTHONPATH": os.pathsep.join(
            [str(packages), *filter(None, [os.environ.get("PYTHONPATH")])]
        ),
        "KS_NOTES": str(notes),
        "KS_EXPORT": str(export),
    }


def notes(environment):
    """What the stand-ins were called with, in order."""
    return [json.loads(line) for line in Path(environment["KS_NOTES"]).read_text().splitlines()]
