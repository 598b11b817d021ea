"""What is published: wheel and source distribution hold what they must, and nothing else."""

import subprocess
import sys
import tarfile
import zipfile
from email.parser import Parser
from pathlib import Path, PurePosixPath

import pytest

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "src" / "kernelscope"
CODE_AND_DATA = {".py", ".toml", ".typed", ".j2", ".css", ".js"}


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    folder = tmp_path_factory.mktemp("dist")
    command = [sys.executable, "-m", "hatchling", "build", "-d", folder]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
    return folder


@pytest.fixture(scope="module")
def wheel(built):
    (path,) = built.glob("*.whl")
    with zipfile.ZipFile(path) as archive:
        yield archive


@pytest.fixture(scope="module")
def metadata(wheel):
    (name,) = (name for name in wheel.namelist() if name.endswith("METADATA"))
    return Parser().parsestr(wheel.read(name).decode())


def package_files():
    files = (path for path in PACKAGE.rglob("*") if path.is_file())
    return {
        path.relative_to(PACKAGE.parent).as_posix()
        for path in files
        if "__pycache__" not in path.parts
    }


def test_the_wheel_holds_the_package_and_its_licence(wheel):
    names = set(wheel.namelist())
    info = {name for name in names if ".dist-info/" in name}
    assert names - info == package_files()
    assert {PurePosixPath(name).name for name in info} == {
        "METADATA",
        "WHEEL",
        "RECORD",
        "LICENSE",
        "entry_points.txt",
    }


def test_the_package_is_code_and_data_only():
    assert {Path(name).suffix or Path(name).name for name in package_files()} == CODE_AND_DATA
    assert "kernelscope/py.typed" in package_files()
    assert "kernelscope/rules/kernels.toml" in package_files()


def test_the_source_distribution_is_the_package_and_what_describes_it(built):
    (path,) = built.glob("*.tar.gz")
    with tarfile.open(path) as archive:
        names = {PurePosixPath(name).parts[1:] for name in archive.getnames()}
    assert {parts[0] for parts in names} == {
        "src",
        "CHANGELOG.md",
        "LICENSE",
        "README.md",
        "PKG-INFO",
        "pyproject.toml",
        ".gitignore",
    }
    assert {"/".join(parts[1:]) for parts in names if parts[0] == "src"} == package_files()


def test_the_metadata_say_licence_python_and_command(wheel, metadata):
    assert metadata["License-Expression"] == "Apache-2.0"
    assert metadata["Requires-Python"] == ">=3.11"
    (entry,) = (name for name in wheel.namelist() if name.endswith("entry_points.txt"))
    assert "kernelscope = kernelscope.cli:main" in wheel.read(entry).decode()


def test_dependencies_have_a_lower_bound_and_no_cap(metadata):
    needed = metadata.get_all("Requires-Dist")
    assert needed
    for one in needed:
        assert ">=" in one
        assert "<" not in one.partition(";")[0]
        assert "==" not in one.partition(";")[0]


def test_the_citation_names_the_version_that_is_published(metadata):
    citation = (ROOT / "CITATION.cff").read_text("utf-8")
    assert f"version: {metadata['Version']}\n" in citation
    assert f"license: {metadata['License-Expression']}\n" in citation
