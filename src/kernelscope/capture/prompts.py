"""The prompts of a capture, as token ids."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from kernelscope.capture.config import CaptureConfig
from kernelscope.errors import CaptureError, ConfigError, MissingExtra
from kernelscope.model_config import read_model_config

_RANDOM_IDS = 10_000
"""Random ids are below this, as those of ``vllm bench latency`` are."""


def make_prompts(config: CaptureConfig) -> list[list[int]]:
    """Token ids of as many prompts as the largest batch has, ``input_len`` each.

    Random ones follow from the seed; a text is the same for every request.

    Raises:
        CaptureError: the text or the model's tokenizer cannot be read, or it is too short.
        MissingExtra: the tokenizers package is not installed.
    """
    requests = max(config.batches)
    if config.prompt is None:
        highest = min(_RANDOM_IDS, _vocabulary(config.model) or _RANDOM_IDS)
        shape = (requests, config.input_len)
        ids: list[list[int]] = (
            np.random.default_rng(config.seed).integers(highest, size=shape).tolist()
        )
        return ids
    found = _tokenize(config.model, config.prompt)
    if len(found) < config.input_len:
        raise CaptureError(
            f"{config.prompt} is {len(found)} tokens, fewer than the {config.input_len} asked for.",
            hint="Give a longer text or a smaller --input-len.",
        )
    return [found[: config.input_len]] * requests


def _vocabulary(model: str) -> int | None:
    """The size that a local configuration states, if there is one."""
    try:
        return read_model_config(Path(model) / "config.json").count("vocab_size")
    except ConfigError:
        return None


def _tokenize(model: str, prompt: Path) -> list[int]:
    try:
        from tokenizers import Tokenizer
    except ImportError as error:
        raise MissingExtra(
            "a prompt from a text needs the tokenizers package.",
            hint="pip install 'kernelscope[capture]', or leave --prompt away for random ids.",
        ) from error
    try:
        text = prompt.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise CaptureError(f"{prompt} cannot be read as text: {error}.") from error
    local = Path(model) / "tokenizer.json"
    try:
        tokenizer = (
            Tokenizer.from_file(str(local)) if local.exists() else Tokenizer.from_pretrained(model)
        )
    except Exception as error:  # the package raises nothing narrower
        raise CaptureError(
            f"the tokenizer of {model} cannot be loaded: {error}.",
            hint="Put its tokenizer.json beside config.json, or leave --prompt away.",
        ) from error
    ids: list[int] = tokenizer.encode(text).ids
    return ids
