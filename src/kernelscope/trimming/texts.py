"""Rules for text that is shared: each gives what may be told of a text, or None for nothing."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping

from kernelscope.layers.graph_names import LAYER
from kernelscope.steps.labels import ENGINES
from kernelscope.trimming.allowed import Allowed

Rule = Callable[[str], str | None]

_NUMBERS = re.compile(r"\[[\d, -]*\]")
_VERSION = re.compile(r"[\d.]{1,24}")
_FACT = re.compile(r"[\w .+-]{0,48}")
_WORDS = re.compile(r"[\w ,.()-]{0,64}")
_PRODUCT = re.compile(r"[\w ()+-]{0,48}(/\d+)?")
# A dot only before a digit (python3.11): what else has dots may be a host.
_PROCESS = re.compile(r"[A-Za-z_][\w:+-]{0,31}(\.\d+)*")
_FOLDERS = re.compile(r"(?<![\w)>])(?:[A-Za-z]:)?[/\\](?:[\w.+~ -]+[/\\])*")
_LABEL_CHARACTERS = re.compile(r"[\w\[\]():,=. ]*")
_LAYER = re.compile(LAYER)
_ENGINES = tuple(re.compile(form.pattern) for engine in ENGINES for form in engine.forms)


def text_rules(allowed: Allowed) -> Mapping[str, Rule]:
    """The rules by the names that ``tables.toml`` uses; labels need all of them at once."""
    messages = [re.compile(pattern, re.IGNORECASE) for pattern in allowed.messages]

    def message(text: str) -> str | None:
        found = next(filter(None, (pattern.search(text) for pattern in messages)), None)
        return found[0] if found else None

    return {
        "numbers": lambda text: _whole(_NUMBERS, text),
        "version": lambda text: _whole(_VERSION, text),
        "fact": lambda text: _whole(_FACT, text),
        "words": lambda text: _whole(_WORDS, text),
        "product": lambda text: _whole(_PRODUCT, text),
        "process": process_name,
        "name": without_folders,
        "message": message,
    }


def process_name(text: str) -> str | None:
    """The last part of a path, if it looks like the name of a program or thread."""
    base = re.split(r"[/\\]", text)[-1]
    return _whole(_PROCESS, base)


def without_folders(text: str) -> str:
    """A kernel's name; compilers put the path of a source file into names of lambdas."""
    return _FOLDERS.sub("", text) if "/" in text or "\\" in text else text


def tell_labels(texts: Iterable[bytes], allowed: Allowed) -> Iterator[tuple[bytes, str]]:
    """What is told of each NVTX label: step labels, layers, well-known libraries.

    Any other text is someone's own and may hold anything; it becomes ``range N``, equal texts
    the same.
    """
    number = 0
    for raw in texts:
        told = _known_label(raw.decode("utf-8", "replace"), allowed.ranges)
        if told is None:
            number += 1
            told = f"range {number}"
        yield raw, told


def _known_label(text: str, names: frozenset[str]) -> str | None:
    if text in names or not text:
        return text
    found = next(filter(None, (pattern.search(text) for pattern in _ENGINES)), None)
    found = found or _LAYER.search(text)
    return _whole(_LABEL_CHARACTERS, found[0]) if found else None


def key_rule(patterns: Iterable[str]) -> Rule:
    """Names that one of the patterns matches as a whole."""
    compiled = [re.compile(pattern) for pattern in patterns]
    return lambda text: text if any(one.fullmatch(text) for one in compiled) else None


def _whole(pattern: re.Pattern[str], text: str) -> str | None:
    return text if pattern.fullmatch(text) else None
