"""Tests of the packages: the sdist builds the wheel, and the wheel works in an empty environment."""

from __future__ import annotations

import email
import json
import os
import platform
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
from llvmlite import binding

import wirecodec
from benchmarks.cold.wheel import Environment, list_programs
from docs import pages
from wheels import kernels
from wirecodec.kernels.compiler.built import LEVELS
from wirecodec.kernels.compiler.cache_folder import BESIDE

pytest.importorskip("setuptools", minversion="77", reason="setuptools 77 builds the wheel")

ROOT = Path(__file__).parents[1]
JUNK = (".git", ".venv*", ".*_cache", ".hypothesis", "__pycache__", "build", "dist", "*.egg-info")
BUILD = "import sys; sys.path.insert(0, 'wheels'); import backend; getattr(backend, sys.argv[1])(sys.argv[2])"
SCRIPT = """
import sys, numpy, wirecodec, collectives
blob = wirecodec.encode(numpy.array([0, 3, 0, -1], "f4"), "all | raw-index | raw")
print(wirecodec.__file__, collectives.__file__, wirecodec.decode(blob).to_dense().tolist(), sep="\\n")
"""


FIRST_STEPS = """
import sys, time, json
start = time.process_time()
import numpy as np, wirecodec as wc
from concurrent.futures import ThreadPoolExecutor
from wirecodec.element_types import dtype_named
scheme, dtype = sys.argv[1:]
def step(seed):
    rng = np.random.default_rng(seed)
    x = rng.laplace(size=300_000).astype(dtype_named(dtype))
    if scheme.startswith("nonzero"):
        x[rng.random(x.size) < 0.95] = 0
    blob = wc.Compressor(scheme).compress({"w": x})
    wc.Compressor(scheme, scope="group").compress({"v": x, "w": x[:500]})
    return wc.decode_many(blob)["w"].nnz > 0
with ThreadPoolExecutor(8) as pool:
    assert all(pool.map(step, range(8)))
seconds = time.process_time() - start
from wirecodec.kernels.compiler.compile_log import log
print(json.dumps([seconds, [entry.kernel for entry in log if entry.compiled]]))
"""
BYTES = """
import hashlib, json, sys
import numpy as np, wirecodec as wc
from wirecodec.element_types import dtype_named
results = {}
for scheme, dtype in json.loads(sys.argv[1]):
    digest, rng = hashlib.sha256(), np.random.default_rng(0)
    for scope in ("tensor", "group"):
        compressor = wc.Compressor(scheme, scope=scope)
        for step in range(2):
            x = rng.laplace(size=60_000).astype(dtype_named(dtype))
            x[rng.random(x.size) < 0.5] = 0
            blob = compressor.compress({"v": x, "w": x[:40_000]})
            digest.update(bytes(blob))
            for found in wc.decode_many(blob).values():
                digest.update(found.to_dense().tobytes())
            kept = compressor.residual("w")
            digest.update(b"" if kept is None else kept.tobytes())
    y = np.where(rng.random(x.size) < 0.1, x * x.dtype.type(1.5), x)
    patch = wc.diff({"w": x}, {"w": y})
    digest.update(bytes(patch))
    wc.apply(patch, {"w": x})
    assert np.array_equal(x, y)
    results[f"{scheme} {dtype}"] = digest.hexdigest()
from wirecodec.kernels.compiler.compile_log import log
print(json.dumps([results, [entry.kernel for entry in log if entry.compiled]]))
"""
PATCHES = """
import json, kernels
kernels._make_patches("float32")
from wirecodec.kernels.compiler import jit
kernels._make_all_kernels()
print(json.dumps({name: len(kernel.overloads) for name, kernel in jit.kernels.items()}))
"""
LEVEL = """
import sys, pytest
from wirecodec.kernels.compiler import built
built.LEVELS = tuple(level for level in built.LEVELS if level.name == sys.argv[1])
options = ["-q", "-p", "no:cacheprovider", "tests/wirecodec/test_conformance.py", "-k", "golden"]
status = pytest.main(options)
from wirecodec.kernels.compiler.compile_log import log
print(sum(not entry.compiled for entry in log))
sys.exit(status)
"""


def run(*command: str | Path, cwd: Path, **settings: str) -> str:
    environment = {**os.environ, "WIRECODEC_BUILD_SECONDS": "0", **settings}
    if "PYTHONPATH" not in settings:
        environment.pop("PYTHONPATH", None)  # pip would find a source tree there, as an installed version
    done = subprocess.run(
        [str(part) for part in command],
        cwd=cwd,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=1800,
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


def install(wheel: Path, folder: Path) -> tuple[Path, Path]:
    """Install a wheel in an environment of its own; return its Python and its site-packages."""
    run(sys.executable, "-m", "venv", "--without-pip", folder / "venv", cwd=folder)
    python = folder / "venv" / "bin" / "python"
    options = ("--no-deps", "--no-index", "--disable-pip-version-check", "--quiet")
    run(sys.executable, "-m", "pip", "--python", python, "install", *options, wheel, cwd=folder)
    (site,) = (folder / "venv" / "lib").glob("*/site-packages")
    # The wheel's own packages come first on the path.
    (site / "dependencies.pth").write_text(str(Path(np.__file__).parents[1]))
    return python, site


def test_wheel_in_an_empty_environment(packages: tuple[set[str], Path], tmp_path: Path) -> None:
    _, wheel = packages
    assert wheel.name.endswith("-py3-none-any.whl")
    python, site = install(wheel, tmp_path)
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


def test_readme_schemes_are_built() -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    shown = {
        cell.replace("\\", "") for cell in re.findall(r"^\|[^|]+\| `(\S+ \\\|.+?)` \|", text, re.MULTILINE)
    }
    assert len(shown) >= 5
    assert shown == set(kernels.SCHEMES)


def test_kernels_of_patches_are_built() -> None:
    """The patches that a build makes reach all kernels of patches."""
    page = run(sys.executable, "-c", PATCHES, cwd=ROOT / "wheels", PYTHONPATH=str(ROOT))
    found = {name: count for name, count in json.loads(page).items() if ".kernels.cpu.patch." in name}
    assert len(found) > 15
    assert [
        name for name, count in found.items() if count != 1
    ] == []  # more: types that differ in flags only


@pytest.mark.nightly
@pytest.mark.timeout(3600)
@pytest.mark.skipif(platform.machine() != "x86_64", reason="there are levels of x86-64 only")
def test_wheel_with_kernels(tmp_path: Path) -> None:
    """Nothing is compiled at the first steps, and each level of this machine writes the golden bytes."""
    shutil.copytree(ROOT, tmp_path / "source", ignore=shutil.ignore_patterns(*JUNK))
    settings = {"WIRECODEC_BUILD_SECONDS": "1500"}
    run(sys.executable, "-c", BUILD, "build_wheel", tmp_path, cwd=tmp_path / "source", **settings)
    (wheel,) = tmp_path.glob("*manylinux*.whl")
    assert wheel.stat().st_size < 40e6
    python, site = install(wheel, tmp_path)
    files = sorted(path.name for path in (site / "wirecodec/kernels/built").iterdir())
    assert files == sorted(level.file_name for level in LEVELS if level.machine == "x86_64")
    for dtypes, schemes in zip(kernels.DTYPES, (kernels.SCHEMES, kernels.SCHEMES[:1]), strict=True):
        for dtype in dtypes:
            for scheme in schemes:
                seconds, compiled = json.loads(
                    run(python, "-I", "-c", FIRST_STEPS, scheme, dtype, cwd=tmp_path)
                )
                assert compiled == [], (scheme, dtype)
                assert seconds < 5, (scheme, dtype)
    environment = Environment(python, tmp_path / "home")
    environment.home.mkdir()
    for title, program in list_programs().items():
        assert environment.run(program)[1] == [], title
    for name in ("tests", "formats"):
        (tmp_path / "beside" / name).parent.mkdir(exist_ok=True)
        (tmp_path / "beside" / name).symlink_to(ROOT / name)
    available = {name for name, has in binding.get_host_cpu_features().items() if has}
    for level in LEVELS:
        if level.machine == "x86_64" and level.features <= available:
            settings = {"PYTHONPATH": str(tmp_path / "beside"), "NUMBA_CACHE_DIR": str(tmp_path / level.name)}
            page = run(python, "-c", LEVEL, level.name, cwd=tmp_path / "beside", **settings)
            assert int(page.splitlines()[-1]) > 50, page


@pytest.mark.nightly
@pytest.mark.timeout(3600)
@pytest.mark.skipif("ARM64" not in os.environ, reason="not in make test-arm64")
def test_wheel_for_arm64(tmp_path: Path) -> None:
    """Kernels that were compiled here give the same bytes on another machine, which compiles none."""
    root = Path(os.environ["ARM64"])
    shutil.copytree(ROOT, tmp_path / "source", ignore=shutil.ignore_patterns(*JUNK))
    settings = {"WIRECODEC_BUILD_SECONDS": "1500", "WIRECODEC_BUILD_MACHINE": "aarch64"}
    run(sys.executable, "-c", BUILD, "build_wheel", tmp_path, cwd=tmp_path / "source", **settings)
    (wheel,) = tmp_path.glob("*manylinux*_aarch64.whl")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(tmp_path / "there")
    cases = [(scheme, "float32") for scheme in (*kernels.SCHEMES, *kernels.LOCAL_SCHEMES)]
    cases += [(kernels.SCHEMES[0], dtype) for dtype in kernels.DTYPES[1]]
    script = ("-W", "ignore", "-c", BYTES, json.dumps(cases))
    here = json.loads(run(sys.executable, *script, cwd=tmp_path, PYTHONPATH=str(ROOT)))
    (python,) = (root / "root/usr/bin").glob("python3.*")
    settings = {
        "PYTHONPATH": os.pathsep.join(map(str, (tmp_path / "there", root / "site"))),
        "NUMBA_CACHE_DIR": str(tmp_path / "cache"),
        "NUMBA_NUM_THREADS": "2",
    }
    emulator = ("qemu-aarch64-static", "-L", root / "root", python)
    there = json.loads(run(*emulator, *script, cwd=tmp_path, **settings))
    assert there == [here[0], []]
