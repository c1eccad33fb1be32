"""The conformance kit: the archive of ``make dist`` runs in an empty folder, with Python alone."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path
from typing import Any

import pytest

from formats import groups, make_kit, make_vectors
from tests.formats.test_c import COMPILER, SOURCES, compile_check
from tests.formats.test_c_streams import compile_split

PYTHON = [sys.executable, "-S"]
"""Python without the packages that are installed, such as NumPy."""
REFERENCE = f"{sys.executable} -S -m formats.reference"
FEW = (
    *("valid/bitmap/bitmap-d*", "bad/mean/*", "streams/stream-unit-l*", "indexes/closed-e*"),
    *("patches/patch-state-s*", "rounds/rounds-begins-*", "agreement/agreement-[hsw]*s.json", "scheme/*"),
)
"""Vectors of all groups that take seconds."""


@pytest.fixture(scope="module")
def kit(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build the archive, and unpack it."""
    folder = tmp_path_factory.mktemp("kit")
    archive = make_kit.build(folder)
    assert make_kit.build(folder / "again").read_bytes() == archive.read_bytes()
    with tarfile.open(archive) as packed:
        safely: Any = {"filter": "data"} if hasattr(tarfile, "data_filter") else {}  # Python 3.11.4 or newer
        packed.extractall(folder, **safely)
    (root,) = (
        path for path in folder.iterdir() if path.name.startswith("wirecodec-conformance-") and path.is_dir()
    )
    for pattern in FEW:
        for path in make_vectors.VECTORS.glob(pattern):
            target = folder / "few" / path.relative_to(make_vectors.VECTORS)
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(path, target)
    return root


def run(kit: Path, *arguments: str) -> tuple[int, str]:
    """Run the kit; return the exit status, and what it prints."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    command = [*PYTHON, "run.py", *arguments]
    done = subprocess.run(command, cwd=kit, env=environment, capture_output=True, text=True, check=False)
    return done.returncode, done.stdout + done.stderr


def test_it_has_all_vectors(kit: Path) -> None:
    found = {path.relative_to(kit / "formats" / "vectors") for path in kit.rglob("formats/vectors/**/*.json")}
    assert found == {path.relative_to(make_vectors.VECTORS) for path in make_vectors.VECTORS.rglob("*.json")}


def test_the_reference_passes(kit: Path) -> None:
    few = str(kit.parent / "few")
    status, text = run(kit, "--vectors", few, "--without", "zstd", "--without", "steps-zstd", REFERENCE)
    lines = text.splitlines()
    assert status == 0, text
    assert [line.partition(":")[0] for line in lines] == [*groups.list_groups(Path(few))][:-1]
    assert all(int(line.split()[1]) > 1 for line in lines), text
    text_form = f"{sys.executable} -S -m formats.reference.text_form"
    status, text = run(kit, "--vectors", few, "--without", "zstd", "--text", text_form)
    assert (status, text.count("text: ")) == (0, 1), text


def test_failures_are_told(kit: Path) -> None:
    few = str(kit.parent / "few")
    blind = f"""{sys.executable} -S -c "print('{{}}')" """
    status, text = run(kit, "--vectors", few, "--only", "scheme", "--only", "indexes", blind)
    assert status == 1
    assert "scheme: 0 of 4 vectors pass" in text
    assert "closed-empty: refused as KeyError" in text
    assert "the registry has no brotli" in run(kit, "--without", "brotli", blind)[1]


@pytest.mark.skipif(COMPILER is None, reason="there is no C compiler (gcc or cc)")
def test_the_programs_in_c_pass(kit: Path, tmp_path: Path) -> None:
    """They decode containers behind an adapter, split streams, and read indexes; also from a file."""
    few = ["--vectors", str(kit.parent / "few")]
    assert compile_check(tmp_path / "check", "-O1").returncode == 0
    for name in ("patch", "split", "index"):
        assert compile_split(tmp_path / name, SOURCES / f"{name}.c", "-O1").returncode == 0
    decoder = f"{sys.executable} -S {SOURCES / 'program.py'} {tmp_path / 'check'} {tmp_path / 'patch'}"
    without = [word for name in ("zstd", "steps-zstd", "deflate") for word in ("--without", name)]
    for arguments in (
        [*without, "--only", "containers", "--only", "patches", decoder],
        ["--only", "streams", "--only", "streams-skipping", str(tmp_path / "split")],
        ["--only", "indexes", str(tmp_path / "index")],
    ):
        status, text = run(kit, *few, *arguments)
        assert status == 0, text
    command = f"sh -c '{tmp_path / 'index'} \"$1\" < $0' FILE"
    assert run(kit, *few, "--only", "indexes", command)[0] == 0
