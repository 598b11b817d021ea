"""An .nsys-rep given instead of its export: export it, where nsys is at hand."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

from kernelscope.errors import NotAnExport
from kernelscope.nsys import files
from kernelscope.nsys.temporary import TemporaryExport

_LOG_LINES = 3


def export_report(report: Path) -> TemporaryExport:
    """Run ``nsys export`` into a temporary folder.

    Raises:
        NotAnExport: nsys is not on the path, or its export failed.
    """
    nsys = shutil.which("nsys")
    by_hand = files.export_command(report)
    if nsys is None:
        raise NotAnExport(
            f"{report} is an nsys report (.nsys-rep), and nsys is not on the path to export it.",
            hint=f"Run where nsys is: {by_hand}",
        )
    exported = TemporaryExport.reserve(f"{report.stem}.sqlite")
    command = [nsys, "export", "--type", "sqlite", "--output", str(exported.path), str(report)]
    try:
        done = subprocess.run(
            command,
            capture_output=True,
            text=True,
            errors="replace",
            check=False,
            stdin=subprocess.DEVNULL,
        )
    except OSError as error:
        raise NotAnExport(
            f"{report} is an nsys report (.nsys-rep), and {nsys} cannot be run: {error.strerror}.",
            hint=f"Run where nsys works: {by_hand}",
        ) from error
    if done.returncode != 0 or not exported.path.exists():
        log = " / ".join((done.stdout + done.stderr).strip().splitlines()[-_LOG_LINES:])
        raise NotAnExport(
            f"nsys could not export {report} (exit code {done.returncode}): {log}",
            hint=f"Try it by hand, with an nsys as new as the one that captured: {by_hand}",
        )
    return exported
