"""Tests of the packages: the sdist builds the wheel, and the wheel works in an empty environment."""

from __future__ import annotations

import email
import os
import re
import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import wirecodec
from docs import pages
from wirecodec.kernels.compiler.cache_folder import BESIDE

pytest.importorskip("setuptools", minversion="77", reason="setuptools 77 builds the wheel")

ROOT = Path(__file__).parents[1]
JUNK = (".git", ".venv*", ".*_cache", ".hypothesis", "__pycache__", "build", "dist", "*.egg-info")
BUILD = "import sys; from setuptools import build_meta; getattr(build_meta, sys.argv[1])(sys.argv[2])"
SCRIPT = """
import sys, numpy, wirecodec, collectives
blob = wirecodec.encode(numpy.array([0, 3, 0, -1], "f4"), "all | raw-index | raw")
print(wirecodec.__file__, collectives.__file__, wirecodec.decode(blob).to_dense().tolist(), sep="\\n")
"""


def run(*command: str | Path, cwd: Path) -> str:
    environment = dict(os.environ)
    environment.pop("PYTHONPATH", None)  # pip would find a source tree there, as an installed version
    done = subprocess.run(
        [str(part) for part in command],
        cwd=cwd,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=200,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def packages(tmp_path_factory: pytest.TempPathFactory) -> tuple[set[str], Path]:
    """The names in the sdist, and the wheel that is built from it.

    The sources are copied first, because setuptools writes into the folder that it builds.
    """
    folder = tmp_path_factory.mktemp("dist")
    shutil.copytree(ROOT, folder / "source", ignore=shutil.ignore_patterns(*JUNK))
    run(sys.executable, "-c", BUILD, "build_sdist", folder, cwd=folder / "source")
    (sdist,) = folder.glob("*.tar.gz")
    with tarfile.open(sdist) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
        safely: Any = {"filter": "data"} if hasattr(tarfile, "data_filter") else {}  # Python 3.11.4 or newer
        archive.extractall(folder / "unpacked", **safely)
    (unpacked,) = (folder / "unpacked").iterdir()
    run(sys.executable, "-c", BUILD, "build_wheel", folder, cwd=unpacked)
    (wheel,) = folder.glob("*.whl")
    return names, wheel


@pytest.mark.skipif(not (ROOT / ".git").exists(), reason="not a git clone")
def test_sdist_is_the_project(packages: tuple[set[str], Path]) -> None:
    names, _ = packages
    tracked = [name for name in run("git", "ls-files", "-z", cwd=ROOT).split("\0") if (ROOT / name).is_file()]
    assert "formats/c/wirecodec.h" in tracked
    assert [name for name in tracked if name not in names] == []
    assert not [name for name in names if "__pycache__" in name]


def test_description_needs_no_repository(packages: tuple[set[str], Path]) -> None:
    """The package index shows the wheel's description, without the files that the README links to."""
    _, wheel = packages
    with zipfile.ZipFile(wheel) as archive:
        (name,) = (name for name in archive.namelist() if name.endswith(".dist-info/METADATA"))
        metadata = email.message_from_bytes(archive.read(name))
    assert metadata["Description-Content-Type"] == "text/markdown"
    text = metadata.get_payload()
    assert isinstance(text, str)
    targets = re.findall(r"\]\(<?([^)>\s]*)", text)
    targets += re.findall(r"^\[[^\]]+\]:\s*(\S+)|\b(?:src|href)=[\"']?([^\"'>\s]+)", text, re.MULTILINE)
    assert [target for target in targets if not str(target).startswith("https://")] == []
    pictures = re.findall(r"!\[[^\]]*\]\(([^)]*)\)", text)
    assert pictures == [f"{pages.HOME}/raw/main/benchmarks/results/training_links.png"]
    assert 'pip install "wirecodec[mpi]"' in text
    assert re.findall(r"pip install [\"']?\.", text) == []


def test_the_extra_of_flower_has_the_version_that_the_tests_use(packages: tuple[set[str], Path]) -> None:
    """It is the one of `integrations`, which the tests of the adapters install, and no other framework."""
    _, wheel = packages
    with zipfile.ZipFile(wheel) as archive:
        (name,) = (name for name in archive.namelist() if name.endswith(".dist-info/METADATA"))
        metadata = email.message_from_bytes(archive.read(name))
    assert {"flower", "integrations"} <= set(metadata.get_all("Provides-Extra", []))
    extras: dict[str, list[str]] = {"flower": [], "integrations": []}
    for requirement in map(str, metadata.get_all("Requires-Dist", [])):
        needed, _, extra = requirement.partition(";")
        for known, names in extras.items():
            if f'extra == "{known}"' in extra:
                names.append(needed.strip())
    assert extras["flower"] == [one for one in extras["integrations"] if one.startswith("flwr")]
    assert len(extras["flower"]) == 1


def test_wheel_contains_only_the_packages(packages: tuple[set[str], Path]) -> None:
    _, wheel = packages
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
    tops = {name.partition("/")[0] for name in names}
    assert {top for top in tops if not top.endswith(".dist-info")} == {"wirecodec", "collectives"}
    for package in ("wirecodec", "collectives"):
        sources = {
            path.relative_to(ROOT).as_posix()
            for pattern in ("*.py", "*.cu", "*.cuh", "py.typed")
            for path in (ROOT / package).rglob(pattern)
        }
        assert f"{package}/py.typed" in sources
        assert {name for name in names if name.startswith(f"{package}/")} == sources


def test_wheel_in_an_empty_environment(packages: tuple[set[str], Path], tmp_path: Path) -> None:
    _, wheel = packages
    run(sys.executable, "-m", "venv", "--without-pip", tmp_path / "venv", cwd=tmp_path)
    python = tmp_path / "venv" / "bin" / "python"
    options = ("--no-deps", "--no-index", "--disable-pip-version-check", "--quiet")
    run(sys.executable, "-m", "pip", "--python", python, "install", *options, wheel, cwd=tmp_path)
    (site,) = (tmp_path / "venv" / "lib").glob("*/site-packages")
    # The wheel's own packages come first on the path.
    (site / "dependencies.pth").write_text(str(Path(np.__file__).parents[1]))
    first, second, values = run(python, "-I", "-c", SCRIPT, cwd=tmp_path).splitlines()
    assert Path(first).is_relative_to(site)
    assert Path(second).is_relative_to(site)
    assert values == "[0.0, 3.0, 0.0, -1.0]"
    assert list((site / BESIDE).rglob("*.nbc"))
    run(
        sys.executable,
        "-m",
        "pip",
        "--python",
        python,
        "uninstall",
        "--yes",
        "--quiet",
        "wirecodec",
        cwd=tmp_path,
    )
    assert not (site / "wirecodec").exists()  # else it would hide an editable installation


def test_citation_has_the_version() -> None:
    citation = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    assert f"\nversion: {wirecodec.__version__}\n" in citation
