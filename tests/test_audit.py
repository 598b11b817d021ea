"""The look-up of known vulnerabilities, with a stand-in for pip-audit: this must work offline."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

AUDIT = Path(__file__).parent.parent / ".ci" / "audit.py"
SOUND = {"name": "polars", "version": "1.20.0", "vulns": []}
HOLE = {"id": "PYSEC-1", "fix_versions": ["1.21.0"]}
VULNERABLE = {**SOUND, "vulns": [HOLE]}
UNKNOWN = {"name": "polars", "skip_reason": "not found"}


@pytest.fixture
def audit(tmp_path):
    """Runs the script where pip-audit says this; None is a failure without an answer."""

    def run(dependencies):
        answer = json.dumps({"dependencies": dependencies})
        lines = ["import sys"]
        if dependencies is None:
            lines.append("sys.exit('ConnectionError: no route')")
        else:
            lines.append("name = sys.argv[sys.argv.index('--output') + 1]")
            lines.append(f"open(name, 'w').write({answer!r})")
        (tmp_path / "pip_audit.py").write_text("\n".join(lines))
        path = os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")])
        return subprocess.run(
            [sys.executable, str(AUDIT)],
            capture_output=True,
            text=True,
            check=False,
            env={**os.environ, "PYTHONPATH": path},
        )

    return run


@pytest.mark.parametrize(
    ("dependencies", "code", "said"),
    [
        ([SOUND], 0, "audit: 0 of 1 packages have known vulnerabilities\n"),
        (
            [VULNERABLE],
            1,
            (
                "audit: polars 1.20.0: PYSEC-1, fixed in 1.21.0\n"
                "audit: 1 of 1 packages have known vulnerabilities\n"
            ),
        ),
        ([UNKNOWN], 0, "audit: skipped: nothing is known of polars\n"),
        (None, 0, "audit: skipped: the data cannot be reached (ConnectionError: no route)\n"),
    ],
    ids=["sound", "vulnerable", "unknown", "offline"],
)
def test_vulnerabilities_fail_and_silence_is_told(dependencies, code, said, audit):
    done = audit(dependencies)
    assert (done.returncode, done.stdout) == (code, said), done.stderr
