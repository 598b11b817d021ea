"""The result of looking a trace over."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from kernelscope.findings import Finding


@dataclass(frozen=True)
class Diagnosis:
    """What a file is and what can be learned from it.

    Attributes:
        path: of the file.
        findings: everything that was looked at, in the order of :data:`findings.TOPICS`.
    """

    path: str
    findings: tuple[Finding, ...]

    @property
    def problems(self) -> tuple[Finding, ...]:
        """The findings that make numbers of a summary wrong or incomplete."""
        return tuple(found for found in self.findings if found.level == "problem")

    def about(self, topic: str) -> tuple[Finding, ...]:
        """The findings on one of :data:`kernelscope.findings.TOPICS`."""
        return tuple(found for found in self.findings if found.topic == topic)

    def to_dict(self) -> dict[str, Any]:
        """The findings as plain data for JSON."""
        return {
            "path": self.path,
            "problems": len(self.problems),
            "findings": [asdict(found) for found in self.findings],
        }
