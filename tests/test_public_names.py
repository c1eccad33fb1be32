"""The packages for editors: the names that completion shows, and the types that a checker knows."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

import collectives
import wirecodec

ROOT = Path(__file__).parents[1]

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
