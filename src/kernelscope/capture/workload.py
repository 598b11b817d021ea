"""The workload of a capture. Runs where vLLM is; needs nothing but it. Kept in the run folder.

Everything behind ``--`` is for vLLM. Each batch is warmed up first. With ``--times`` it is timed
without a profiler, once for one new token and once for all of them; with ``--range`` it is run
once inside the profiler's window.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from pathlib import Path
from typing import Any


def main() -> None:
    """Run the batches one after the other in one engine."""
    options, engine_arguments = _parse(sys.argv[1:])
    prompts = json.loads(Path(options.prompts).read_text("utf-8"))
    llm = _engine(engine_arguments)
    measured = []
    for batch in map(int, options.batches.split(",")):
        run = _Batch(llm, prompts[:batch], options.new_tokens)
        _say(f"warming up batch {batch}")
        for _ in range(options.warmups):
            run.generate(options.new_tokens)
        if options.range is not None:
            _say(f"recording batch {batch}")
            run.record(options.range)
        else:
            _say(f"measuring batch {batch}")
            measured.append({"batch": batch, **run.times(options.repeats)})
    if options.times is not None:
        Path(options.times).write_text(json.dumps(measured, indent=2) + "\n", "utf-8")
    _say("done")


class _Batch:
    """One batch of prompts in an engine."""

    def __init__(self, llm: Any, prompts: list[list[int]], new_tokens: int) -> None:
        self._llm = llm
        self._prompts = [{"prompt_token_ids": ids} for ids in prompts]
        self._new_tokens = new_tokens

    def generate(self, new_tokens: int) -> float:
        """Seconds for a batch that generates so many tokens, whatever the model would end with."""
        from vllm import SamplingParams

        sampling = SamplingParams(
            temperature=1.0, top_p=1.0, ignore_eos=True, max_tokens=new_tokens, detokenize=False
        )
        began = time.perf_counter()
        self._llm.generate(self._prompts, sampling_params=sampling, use_tqdm=False)
        return time.perf_counter() - began

    def times(self, repeats: int) -> dict[str, list[float]]:
        """Seconds of each repetition: the prompt and one token, and everything, by turns."""
        pairs = [(self.generate(1), self.generate(self._new_tokens)) for _ in range(repeats)]
        return {"first_token_s": [a for a, _ in pairs], "all_tokens_s": [b for _, b in pairs]}

    def record(self, opened_by: str) -> None:
        """Generate once with the profiler's window open."""
        if opened_by == "vllm":
            self._llm.start_profile()
            self.generate(self._new_tokens)
            self._llm.stop_profile()
            return
        from torch.cuda import profiler

        profiler.start()
        self.generate(self._new_tokens)
        profiler.stop()


def _parse(arguments: list[str]) -> tuple[argparse.Namespace, list[str]]:
    split = arguments.index("--")
    parser = argparse.ArgumentParser()
    for name in ("--prompts", "--batches"):
        parser.add_argument(name, required=True)
    for name in ("--new-tokens", "--warmups"):
        parser.add_argument(name, type=int, required=True)
    parser.add_argument("--repeats", type=int, default=0)
    parser.add_argument("--times")
    parser.add_argument("--range", choices=("vllm", "own"))
    return parser.parse_args(arguments[:split]), arguments[split + 1 :]


def _engine(arguments: list[str]) -> Any:
    """An engine from vLLM's own command-line arguments."""
    from vllm import LLM
    from vllm.engine.arg_utils import EngineArgs

    try:
        from vllm.utils.argparse_utils import FlexibleArgumentParser
    except ImportError:  # before 0.12
        from vllm.utils import FlexibleArgumentParser

    parser = EngineArgs.add_cli_args(FlexibleArgumentParser())
    return LLM(**vars(EngineArgs.from_cli_args(parser.parse_args(arguments))))


def _say(text: str) -> None:
    sys.stdout.write(f"kernelscope: {text}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
