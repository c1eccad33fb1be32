"""The packages for editors: the names that completion shows, and the types that a checker knows."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

import collectives
import wirecodec

ROOT = Path(__file__).parents[1]
FOLDERS = ("wirecodec", "collectives", "formats", "benchmarks", "docs", "tests")
MOVED: dict[ModuleType, tuple[str, ...]] = wirecodec._MOVED

PROGRAM = """
from array import array
from collections.abc import Mapping

import numpy as np

import collectives as co
import wirecodec as wc
from collectives.communicator import Communicator


class Tensor:  # as that of torch: no base class of NumPy, and no buffer
    shape: tuple[int, ...] = (3,)
    dtype: object = None


class Capsule:
    def __dlpack_device__(self) -> tuple[int, int]:
        return 1, 0


x = np.ones(3, np.float32)
scheme = wc.Scheme(wc.selectors.TopK(0.01), wc.codecs.Rice(), wc.codecs.Raw())
before: wc.codecs.Rice = wc.Rice()  # a moved name has its type
wc.TopK(0.01).select(3).wrong  # wrong
wc.Rise()  # wrong
wc.encode(x)
wc.encode(x[0])
wc.encode(Tensor())
wc.encode(Capsule())
wc.encode(array("f", [1.0]))
wc.encode(wc.decode(wc.encode(x)))
wc.encode(3)  # wrong
wc.encode([1.0, 2.0])  # wrong
wc.encode({"w": x})  # wrong
wc.encode("text")  # wrong
wc.encode_many({"w": x, "b": x})
wc.encode_many({"w": Tensor()})
wc.encode_many(x)  # wrong
wc.encode_many({"w": 3})  # wrong
compressor = wc.Compressor("topk(0.01) | rice | raw")
compressor.compress({"w": x})
compressor.prepare({"w": Tensor()}).commit()
compressor.compress({"w": 3.0})  # wrong
compressor.prepare(x)  # wrong


def step(comm: Communicator, gradients: Mapping[str, Tensor]) -> None:
    mean: np.ndarray = co.allreduce(comm, x)
    means: dict[str, np.ndarray] = co.allreduce(comm, gradients, compressor)
    union: wc.SparseTensor = co.allreduce(comm, x, sparse=True)
    co.allreduce(comm, gradients, compressor, commit=False).commit()
    co.allreduce(comm, 3)  # wrong
    co.allreduce(comm, {"w": 3}, compressor)  # wrong
    all_of_them: list[wc.SparseTensor] = co.allgather(comm, Tensor())
    named: list[dict[str, wc.SparseTensor]] = co.allgather(comm, gradients)
    co.allgather(comm, 3)  # wrong
    co.allgather(comm, {"w": None})  # wrong
"""


@pytest.mark.parametrize("package", [wirecodec, collectives])
def test_completion_shows_public_names_only(package: ModuleType) -> None:
    assert dir(package) == sorted(package.__all__)
    assert all(hasattr(package, name) for name in dir(package))


@pytest.mark.parametrize("module", MOVED)
def test_completion_of_a_module_of_classes_shows_them_only(module: ModuleType) -> None:
    assert sorted(name for name in dir(module) if not name.startswith("_")) == sorted(module.__all__)


def test_the_face_is_small() -> None:
    assert len(wirecodec.__all__) <= 60


def test_a_moved_name_is_the_same_object_and_warns_where_it_is_used() -> None:
    """29 codecs and transforms moved, and 12 selectors."""
    assert {module.__name__: len(set(names)) for module, names in MOVED.items()} == {
        "wirecodec.codecs": 29,
        "wirecodec.selectors": 12,
    }
    for module, names in MOVED.items():
        assert set(names) <= set(module.__all__) - set(wirecodec.__all__)
        for name in names:
            message = rf"^wirecodec\.{name} is {module.__name__}\.{name} now; the old name goes with 0\.3\.0$"
            with pytest.warns(DeprecationWarning, match=message) as caught:
                assert getattr(wirecodec, name) is getattr(module, name)
            assert [one.filename for one in caught] == [__file__]
            program = compile(f"from wirecodec import {name} as found", "a program", "exec")
            namespace: dict[str, object] = {}
            with pytest.warns(DeprecationWarning, match=message) as caught:
                exec(program, namespace)
            assert namespace["found"] is getattr(module, name)
            assert {one.filename for one in caught} == {"a program"}


def test_an_unknown_name_is_an_error() -> None:
    with pytest.raises(AttributeError, match=r"^module 'wirecodec' has no attribute 'Rise'$"):
        _ = wirecodec.Rise  # type: ignore[attr-defined]
    with pytest.raises(ImportError, match="cannot import name 'Rise' from 'wirecodec'"):
        exec("from wirecodec import Rise")


def test_no_file_uses_a_moved_name() -> None:
    """The changelog names them. Warnings are errors in tests; this finds uses that no test runs."""
    names = "|".join(name for names in MOVED.values() for name in names)
    dotted = re.compile(rf"\b(?:wc|wirecodec)\.(?:{names})\b")
    imported = re.compile(rf"from wirecodec import (?:\([^)]*?\b|[^(\n]*?\b)(?:{names})\b")
    for example in ("wc.Rice()", "from wirecodec import encode, TopK", "from wirecodec import (\n  Rice,\n)"):
        assert dotted.search(example) or imported.search(example)
    found = []
    for path in (*ROOT.glob("*.md"), *(path for folder in FOLDERS for path in (ROOT / folder).rglob("*"))):
        if path.suffix not in (".py", ".md") or path in (ROOT / "CHANGELOG.md", Path(__file__)):
            continue
        text = path.read_text(encoding="utf-8")
        uses = (*dotted.finditer(text), *imported.finditer(text))
        found += [f"{path.relative_to(ROOT)}: {use[0]}" for use in uses]
    assert not found


def test_a_type_checker_finds_what_is_no_array(tmp_path: Path) -> None:
    pytest.importorskip("mypy", reason="mypy is not installed")
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    options = (
        "--strict",
        "--follow-imports=silent",
        "--ignore-missing-imports",
        "--disable-error-code=type-arg",
    )
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "mypy",
            *options,
            "--cache-dir",
            tmp_path / "cache",
            "--no-error-summary",
            program,
        ],
        cwd=ROOT,
        env={"MYPYPATH": str(ROOT), "PATH": ""},
        capture_output=True,
        text=True,
        check=False,
        timeout=280,
    )
    lines = PROGRAM.splitlines()
    found = {int(line.split(":")[1]) for line in done.stdout.splitlines() if ": error: " in line}
    assert found == {n for n, line in enumerate(lines, 1) if line.endswith("# wrong")}, (
        done.stdout + done.stderr
    )
