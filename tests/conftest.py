"""Fixtures shared by the tests; :mod:`export_builder` writes the traces."""

from __future__ import annotations

import pytest
from click.testing import CliRunner

import kernelscope
from export_builder import DECODE, LAUNCH, PREFILL, ExportBuilder
from kernelscope.cli import main


def pytest_addoption(parser):
    parser.addoption(
        "--renew-golden", action="store_true", help="Rewrite tests/golden; see its README first."
    )


@pytest.fixture
def export():
    """An empty export of nsys 2024.2, the first version with every table that we read."""
    return ExportBuilder("2024.2")


def small_run():
    """One prefill and three decode steps; each decode step has 4 kernels in 10 µs of 100 µs."""
    export = ExportBuilder("2024.2").gpu(0, "NVIDIA H200").graph_mode("Node").window(2_000)
    export.step(PREFILL, [("nvjet_a", 30), ("rms_norm_kernel", 10)])
    for _ in range(3):
        export.step(
            DECODE,
            [("rms_norm_kernel", 1)],
            graph=[("nvjet_a", 5), ("rms_norm_kernel", 2)],
            late=[("nvjet_lm_head", 2)],
            end=5,
        )
    return export


@pytest.fixture
def run_export():
    """A builder with one prefill and three decode steps; see :func:`small_run`."""
    return small_run()


@pytest.fixture(scope="session")
def run_summary(tmp_path_factory):
    """The summary of :func:`small_run`, with one kernel before the first step."""
    export = small_run()
    export.kernel("nvjet_a", 20, 6, export.call(LAUNCH, 10))
    return kernelscope.summarize(export.write(tmp_path_factory.mktemp("run") / "trace0.sqlite"))


@pytest.fixture
def write(tmp_path):
    """Writes a builder's export to a new file and gives its path."""
    written = []

    def write_export(export, **options):
        path = tmp_path / f"trace{len(written)}.sqlite"
        written.append(path)
        return export.write(path, **options)

    return write_export


@pytest.fixture
def read(write):
    """Writes a builder's export and reads it back as a trace."""
    return lambda export, **options: kernelscope.read_export(write(export, **options))


@pytest.fixture
def summarize(write):
    """Writes a builder's export and summarizes it."""
    return lambda export, **options: kernelscope.summarize(write(export, **options))


@pytest.fixture
def run():
    """Runs the command line in this process; standard output and error are kept apart."""

    def invoke(*arguments, **options):
        return CliRunner().invoke(main, [str(argument) for argument in arguments], **options)

    return invoke


@pytest.fixture
def refused(run):
    """Summarizes a file that must be refused; gives the one line that says why."""

    def invoke(path, *arguments):
        folder = path.parent
        before = sorted(folder.iterdir()) if folder.exists() else None
        result = run("summarize", path, *arguments)
        assert result.exit_code == 1, result.output
        assert result.stdout == ""
        assert "Traceback" not in result.stderr
        assert result.stderr.endswith("\n")
        assert result.stderr.count("\n") == 1
        assert (sorted(folder.iterdir()) if folder.exists() else None) == before
        return result.stderr.strip()

    return invoke
