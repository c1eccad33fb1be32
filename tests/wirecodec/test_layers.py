"""Tests of the layers: imports run one way, and heavy modules are imported only when needed."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

LAYERS = {
    "wirecodec": [
        {"errors", "version"},
        {"arrays", "element_types", "limits", "prng", "validation"},
        {"tensors"},
        {"kernels"},
        {"sparse", "support"},
        {"frameworks"},
        {"select", "index", "value", "transform"},
        {"codecs", "registry", "selectors"},
        {"settings"},
        {"container", "jobs"},
        {"cpu"},
        {"gpu"},
        {"pipeline"},
        {"decode_into", "files"},
        {"patch"},
        {"compressor"},
        {"compilation", "comparison"},
        {"interop"},
        {"cli"},
        {"__main__"},
    ],
    "collectives": [
        {"cost_model", "device", "errors", "foresight"},
        {"communicator"},
        {"waiting"},
        {"call"},
        {"channel"},
        {"gloo", "transport", "simulation"},
        {"agreement"},
        {"exchange"},
        {"sums"},
        {"store"},
        {"feed"},
        {"algorithms"},
        {"tuning"},
        {"allgather"},
        {"sites"},
        {"allreduce", "cltk", "gtopk"},
        {"oktopk"},
        {"methods"},
        {"torch"},
        {"local_updates"},
        {"advise", "integrations", "rounds"},
    ],
}
"""Layers of each package, lowest first; a module imports from lower layers or from its own folder."""


@cache
def parse(path: Path) -> ast.Module:
    """Parse a file once for all tests."""
    return ast.parse(path.read_text())


def imports(path: Path) -> set[str]:
    """Return the dotted names that a file imports by full name, at any level."""
    found = set()
    for node in ast.walk(parse(path)):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.level == 0:
            found |= {f"{node.module}.{alias.name}" for alias in node.names}
    return found


@pytest.mark.parametrize("package", LAYERS)
def test_imports_go_to_lower_layers(package: str) -> None:
    rank = {room: rank for rank, rooms in enumerate(LAYERS[package]) for room in rooms}
    wrong = []
    for path in (ROOT / package).rglob("*.py"):
        room = path.relative_to(ROOT / package).parts[0].removesuffix(".py")
        for name in imports(path) if room != "__init__" else ():
            parts = name.split(".")
            if parts[0] != package:
                continue
            if len(parts) < 2 or (parts[1] != room and rank[parts[1]] >= rank[room]):
                wrong.append(f"{path.relative_to(ROOT)} imports {name}")
    assert not wrong


def test_fast_forms_are_a_leaf() -> None:
    """Stages look their fast form up in a table; one module imports the room that fills it."""
    wrong = [
        str(path.relative_to(ROOT))
        for path in (ROOT / "wirecodec").rglob("*.py")
        for name in imports(path)
        if f"{name}.".startswith("wirecodec.cpu.fast.") and path.parent != ROOT / "wirecodec/cpu/fast"
    ]
    assert wrong == ["wirecodec/cpu/entry.py"]


@pytest.mark.parametrize("package", LAYERS)
def test_every_folder_has_a_layer(package: str) -> None:
    places = (ROOT / package).iterdir()
    rooms = {p.stem for p in places if p.suffix == ".py" or (p / "__init__.py").exists()}
    assert rooms - {"__init__"} == set.union(*LAYERS[package])


@pytest.mark.parametrize("package", LAYERS)
def test_imports_have_full_names(package: str) -> None:
    relative = [
        str(path.relative_to(ROOT))
        for path in (ROOT / package).rglob("*.py")
        for node in ast.walk(parse(path))
        if isinstance(node, ast.ImportFrom) and node.level
    ]
    assert not relative


@pytest.mark.parametrize(
    ("folder", "banned"),
    [
        # Three commands load modules of collectives by their names, so that nothing is imported here.
        ("wirecodec", {"collectives", "mpi4py", "formats", "tests", "benchmarks"}),
        ("collectives", {"formats", "tests", "benchmarks"}),
        ("formats", {"wirecodec", "collectives", "tests", "benchmarks", "numpy"}),
    ],
)
def test_packages_keep_to_themselves(folder: str, banned: set[str]) -> None:
    wrong = [
        f"{path.relative_to(ROOT)} imports {name}"
        for path in (ROOT / folder).rglob("*.py")
        for name in imports(path)
        if name.split(".")[0] in banned
    ]
    assert not wrong


def test_few_modules_load_collectives_by_name() -> None:
    loading = [
        str(path.relative_to(ROOT))
        for path in (ROOT / "wirecodec").rglob("*.py")
        for node in ast.walk(parse(path))
        if isinstance(node, ast.Constant) and re.fullmatch(r"collectives(\.\w+)*", str(node.value))
    ]
    assert sorted(loading) == ["wirecodec/cli/advise.py", "wirecodec/cli/feed.py", "wirecodec/cli/rounds.py"]


def test_collectives_reach_wirecodec_by_its_public_names_and_one_module() -> None:
    """The commands in collectives/advise, feed and rounds also use the helpers of the command line."""
    wrong: list[str] = []
    for path in (ROOT / "collectives").rglob("*.py"):
        place = path.relative_to(ROOT / "collectives")
        has_command = place.parts[0] in ("advise", "feed", "rounds")
        allowed = (
            "wirecodec.interop.",
            *(["wirecodec.cli.", "wirecodec.comparison."] if has_command else []),
        )
        found = (name for name in imports(path) if name.startswith("wirecodec."))
        wrong += [f"{place} imports {name}" for name in found if not name.startswith(allowed)]
    assert not wrong


@pytest.mark.parametrize(("package", "most"), [("wirecodec", 20), ("collectives", 12)])
def test_few_modules_are_at_the_top_level(package: str, most: int) -> None:
    assert len(list((ROOT / package).glob("*.py"))) <= most


def test_import_is_light() -> None:
    heavy = ("numba", "scipy", "torch", "mpi4py", "cupy")
    code = f"import sys, wirecodec; print([m for m in {heavy} if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT)
    assert done.stdout.strip() == "[]"


def test_modules_open_with_a_docstring() -> None:
    silent = [
        str(path.relative_to(ROOT))
        for folder in ("wirecodec", "collectives", "formats", "benchmarks")
        for path in (ROOT / folder).rglob("*.py")
        if ast.get_docstring(parse(path)) is None
    ]
    assert not silent


def test_every_cuda_source_is_launched_by_the_module_of_its_name() -> None:
    folder = ROOT / "wirecodec/kernels/cuda"
    launches = {
        path.stem: set(re.findall(r'\.launch\(\s*"(\w+)"', path.read_text())) for path in folder.glob("*.py")
    }
    sources = {path.stem for path in folder.glob("*.cu")}
    assert {name: found for name, found in launches.items() if found} == {name: {name} for name in sources}
