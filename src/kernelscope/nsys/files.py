"""What a file is, told from its first bytes, before SQLite is asked to open it.

SQLite opens an empty file as an empty database and notices most damage only while rows are
read, so the plain cases are explained here.
"""

from __future__ import annotations

import shlex
import stat
from pathlib import Path

from kernelscope.errors import NotAnExport

_HEADER_BYTES = 100
_SQLITE_MAGIC = b"SQLite format 3\0"
# Write and read version of the file format; 2 means a write-ahead log.
_WAL_VERSIONS = b"\x02\x02"
_SUFFIXES = {"sqlite": "sqlite", "report": "nsys-rep"}
_EXPORT_COMMAND = "nsys export --type sqlite -o {sqlite} {name}"
_EXPORT_HINT = f"Export the report: {_EXPORT_COMMAND}"

_IMPORT_HINT = (
    "Import it first (QdstrmImporter -i {name} -o {report}), then: "
    "nsys export --type sqlite -o {sqlite} {report}"
)

_FOLDER_HINT = (
    "Give the .sqlite file inside it, or the folder that nsys export --type parquetdir or arrowdir "
    "wrote."
)
_TABLE_HINT = "Give the folder that it is in, or export again with: nsys export --type sqlite"

REPORT_MAGIC = b"NVIDIA Tegra Profiler Report"

# First bytes of the other files that people have beside a capture: what it is, what to do.
_OTHER_FILES: tuple[tuple[bytes, str, str], ...] = (
    (REPORT_MAGIC, "an nsys report (.nsys-rep), not its SQLite export", _EXPORT_HINT),
    (
        b"NVIDIA Nsight Systems Stream",
        "a raw nsys stream (.qdstrm) that a stopped capture left",
        _IMPORT_HINT,
    ),
    (b"\x89HDF", "an HDF5 file", "Export again with: nsys export --type sqlite"),
    (b"PAR1", "a Parquet file", _TABLE_HINT),
    (b"\xff\xff\xff\xff", "an Arrow stream", _TABLE_HINT),
    (b"ARROW1", "an Arrow file", "Export again with: nsys export --type sqlite"),
    (b"\x1f\x8b", "gzip-compressed", "Unpack it first: gunzip {name}"),
    (b"\xfd7zXZ", "xz-compressed", "Unpack it first: xz -d {name}"),
    (b"\x28\xb5\x2f\xfd", "zstd-compressed", "Unpack it first: unzstd {name}"),
    (b"PK\x03\x04", "a zip archive", "Unpack it first: unzip {name}"),
    (b"version https://git-lfs", "a Git LFS pointer, not the file", "Fetch it: git lfs pull"),
)


def check_is_sqlite(path: Path) -> None:
    """Return if ``path`` is a complete SQLite file; otherwise say what it is instead.

    Raises:
        NotAnExport: not there, not a file, empty, unfinished, truncated or another format.
    """
    header = read_header(path)
    if header.startswith(_SQLITE_MAGIC):
        _check_is_complete(path, header)
        return
    if not any(header):
        raise NotAnExport(
            f"{path} begins with zeros: the export is unfinished or was interrupted.",
            hint="Run nsys export again with --force-overwrite true and let it finish.",
        )
    for magic, kind, hint in _OTHER_FILES:
        if header.startswith(magic):
            advice = hint.format_map(_names(path))
            raise NotAnExport(f"{path} is {kind}.", hint=advice)
    raise NotAnExport(
        f"{path} is not an SQLite file (it begins with {header[:16]!r}).",
        hint="Give the SQLite export of an nsys report: nsys export --type sqlite REPORT.nsys-rep",
    )


def export_command(report: Path) -> str:
    """The command line that exports a report, to be pasted into a shell."""
    return _EXPORT_COMMAND.format_map(_names(report))


def _names(path: Path) -> dict[str, str]:
    """The file's name and what to call what is made of it, quoted for a shell."""
    made = {key: f"{path.stem}.{suffix}" for key, suffix in _SUFFIXES.items()}
    # A file with the wrong suffix must not be told to overwrite itself.
    made = {key: f"new-{name}" if name == path.name else name for key, name in made.items()}
    return {key: shlex.quote(name) for key, name in {**made, "name": path.name}.items()}


def is_report(path: Path) -> bool:
    """Whether ``path`` is an nsys report, which nsys can export.

    Raises:
        NotAnExport: the file is not there, not a regular file, empty or unreadable.
    """
    return read_header(path).startswith(REPORT_MAGIC)


def uses_wal(path: Path) -> bool:
    """Whether the database was left in write-ahead-log mode by another tool."""
    return read_header(path)[18:20] == _WAL_VERSIONS


def read_header(path: Path) -> bytes:
    """The first bytes of a regular, non-empty file; NotAnExport for anything else."""
    try:
        status = path.stat()
        if stat.S_ISDIR(status.st_mode):
            raise NotAnExport(f"{path} is a folder.", hint=_FOLDER_HINT)
        if not stat.S_ISREG(status.st_mode):
            raise NotAnExport(f"{path} is not a regular file.", hint="Give an .sqlite file.")
        with path.open("rb") as file:
            header = file.read(_HEADER_BYTES)
    except FileNotFoundError as error:
        raise NotAnExport(f"There is no file {path}.", hint="Check the path.") from error
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise NotAnExport(f"{path} cannot be read: {reason}.", hint="Check the path.") from error
    if not header:
        raise NotAnExport(
            f"{path} is empty (0 bytes).",
            hint="Run nsys export again with --force-overwrite true and let it finish.",
        )
    return header


def _check_is_complete(path: Path, header: bytes) -> None:
    """Compare the size that the header states with the size of the file.

    https://www.sqlite.org/fileformat.html: page size at offset 16 (1 means 65536), page count
    at 28, valid only if the change counter at 24 equals the version-valid-for number at 92.
    """
    size = path.stat().st_size
    page_size = int.from_bytes(header[16:18], "big")
    page_size = 65536 if page_size == 1 else page_size
    pages = int.from_bytes(header[28:32], "big") if header[24:28] == header[92:96] else 0
    expected = max(pages, 1) * page_size
    if len(header) < _HEADER_BYTES or size < expected:
        raise NotAnExport(
            f"{path} is truncated: it has {size:,} bytes where its header says {expected:,}.",
            hint="Copy it again, or run nsys export again with --force-overwrite true.",
        )
