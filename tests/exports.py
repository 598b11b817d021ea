"""The captured exports of fixtures/exports, unpacked once per process into a temporary folder."""

import atexit
import functools
import lzma
import shutil
import tempfile
from pathlib import Path

EXPORTS = Path(__file__).parent.parent / "fixtures" / "exports"
NAMES = tuple(
    sorted(
        path.relative_to(EXPORTS).as_posix().removesuffix(".xz").removesuffix(".sqlite")
        for path in EXPORTS.glob("*/*")
    )
)


@functools.cache
def folder():
    """Where the unpacked files are."""
    made = Path(tempfile.mkdtemp(prefix="kernelscope-exports-"))
    atexit.register(shutil.rmtree, made, ignore_errors=True)
    return made


@functools.cache
def exported(name):
    """The file of an export such as ``2023.4/qwen35-27b_b1``."""
    plain, unpacked = EXPORTS / f"{name}.sqlite", folder() / f"{name}.sqlite"
    unpacked.parent.mkdir(exist_ok=True)
    if plain.exists():
        shutil.copyfile(plain, unpacked)
    else:
        unpacked.write_bytes(lzma.decompress(Path(f"{plain}.xz").read_bytes()))
    return unpacked
