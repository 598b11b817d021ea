"""The errors that kernelscope raises, and nothing else.

::

    KernelscopeError
    ├── ExportError          the input cannot be read as a finished nsys export
    │   ├── NotAnExport      not there, unfinished, truncated, or another kind of file
    │   ├── MissingTable     a table or column without which there is no result
    │   └── NoKernels        a good export that holds no GPU kernels to look at
    ├── StepError            steps that cannot be found in the way asked for
    ├── PhaseNotFound        the phase asked for has no complete step
    ├── UnknownKernels       more of a phase is unknown than was allowed
    ├── SourcesNotFound      a folder without Inductor's generated kernels
    ├── RuleError            a rules file that cannot be used
    ├── ConfigError          a model configuration that cannot be used
    ├── ModelMismatch        a model configuration whose work the kernels do not show
    ├── UnknownGpu           a GPU whose peaks are neither known nor given
    ├── RecordError          a database of runs that cannot be used
    ├── ChartError           there is nothing to draw in the way asked for
    ├── MissingExtra         a package that is installed only when asked for
    ├── CaptureError         a capture that cannot start, or a stage of it that failed
    ├── RunError             a run folder that cannot be used
    └── OutputError          a result that cannot be written where it was asked for

``message`` states what was found, with values; ``hint`` says what to do next. ``str()`` shows
both on one line.
"""

from __future__ import annotations


class KernelscopeError(Exception):
    """Root of every error raised on purpose by this package."""

    def __init__(self, message: str, *, hint: str = "") -> None:
        self.message = message
        self.hint = hint
        super().__init__(message)

    def __str__(self) -> str:
        return f"{self.message} {self.hint}".rstrip()


class ExportError(KernelscopeError):
    """The input cannot be read as a finished nsys SQLite export."""


class NotAnExport(ExportError):
    """There is no such file, or it is unfinished, truncated or of another kind."""


class MissingTable(ExportError):
    """A table or column is missing without which there is no result."""


class NoKernels(ExportError):
    """The export is sound but holds no GPU kernels to look at."""


class StepError(KernelscopeError):
    """Steps cannot be found in the way that was asked for."""


class PhaseNotFound(KernelscopeError):
    """The trace has no complete step of the phase that was asked for."""


class UnknownKernels(KernelscopeError):
    """Kernels that nothing decides take more of a phase than was allowed."""


class SourcesNotFound(KernelscopeError):
    """A folder was given that holds no kernels that Inductor generated."""


class RuleError(KernelscopeError):
    """A rules file cannot be used; the message names the file, the rule and the reason."""


class ConfigError(KernelscopeError):
    """A model's config.json cannot be read, or does not state what is needed of it."""


class ModelMismatch(KernelscopeError):
    """No step has the multiplies that a model configuration says it must have."""


class UnknownGpu(KernelscopeError):
    """What a GPU can do at most is neither in the export, nor known, nor given."""


class RecordError(KernelscopeError):
    """A database of runs cannot be used: not there, another one, locked, or of a later release."""


class ChartError(KernelscopeError):
    """A chart cannot be drawn or written in the way that was asked for."""


class MissingExtra(KernelscopeError):
    """A package that comes with an extra of kernelscope is not installed."""


class CaptureError(KernelscopeError):
    """A capture cannot start, or a stage of it failed; the message has the end of its log."""


class RunError(KernelscopeError):
    """A run folder cannot be read, is incomplete, or holds other files than were recorded."""


class OutputError(KernelscopeError):
    """A result cannot be written where it was asked for."""
