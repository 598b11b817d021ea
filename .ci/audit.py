"""Look up known vulnerabilities of what kernelscope needs at run time, as installed here.

    .venv/bin/python .ci/audit.py

Exits with 1 if there are any. Says "skipped" and exits with 0 where the data cannot be reached: a
change must be testable offline. Tools of development are not looked up; no user gets them.
"""

import json
import subprocess
import sys
import tempfile
from importlib.metadata import PackageNotFoundError, requires, version
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

SECONDS = 180


def needed(name: str) -> dict[str, str]:
    """Versions of the packages that one needs, and those that these need, without itself."""
    found: dict[str, str] = {}
    ahead = [name]
    while ahead:
        for line in requires(ahead.pop()) or ():
            one = Requirement(line)
            key = canonicalize_name(one.name)
            if key in found or (one.marker and not one.marker.evaluate({"extra": ""})):
                continue
            try:
                found[key] = version(key)
            except PackageNotFoundError:
                sys.exit(f"audit: {key} is not installed; run pip install . first.")
            ahead.append(key)
    return found


def look_up(versions: dict[str, str]) -> dict | None:
    """What pip-audit found, or None if it cannot tell."""
    with tempfile.TemporaryDirectory() as folder:
        pins, report = Path(folder) / "pins.txt", Path(folder) / "report.json"
        pins.write_text("".join(f"{name}=={one}\n" for name, one in sorted(versions.items())))
        options = ["--no-deps", "--disable-pip", "--progress-spinner", "off", "--timeout", "15"]
        command = [sys.executable, "-m", "pip_audit", "-r", str(pins), *options]
        command += ["--format", "json", "--output", str(report)]
        try:
            done = subprocess.run(
                command, capture_output=True, text=True, check=False, timeout=SECONDS
            )
        except subprocess.TimeoutExpired:
            print(f"audit: skipped: no answer in {SECONDS} s")
            return None
        # Its exit code is 1 for vulnerabilities and for failures alike; only answers are written.
        if not report.exists() or not report.read_text():
            reason = (done.stderr.strip().splitlines() or ["no reason given"])[-1]
            print(f"audit: skipped: the data cannot be reached ({reason[:200]})")
            return None
        return json.loads(report.read_text())


def main() -> int:
    """See the module's text."""
    versions = needed("kernelscope")
    found = look_up(versions)
    if found is None:
        return 0
    answered = [one for one in found["dependencies"] if "skip_reason" not in one]
    vulnerable = [one for one in answered if one["vulns"]]
    for one in vulnerable:
        for vulnerability in one["vulns"]:
            fixed = ", ".join(vulnerability["fix_versions"]) or "no version"
            print(f"audit: {one['name']} {one['version']}: {vulnerability['id']}, fixed in {fixed}")
    unknown = [one["name"] for one in found["dependencies"] if "skip_reason" in one]
    if unknown:
        print(f"audit: skipped: nothing is known of {', '.join(unknown)}")
    if answered:
        print(f"audit: {len(vulnerable)} of {len(answered)} packages have known vulnerabilities")
    return 1 if vulnerable else 0


if __name__ == "__main__":
    sys.exit(main())
