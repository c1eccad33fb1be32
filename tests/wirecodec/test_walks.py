"""Tests that calls stay short to walk: the files that they enter, their calls, and how deep they nest.

A later change keeps the numbers, or lowers them. ``print(walk(...))`` shows the way of a call.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import cycle
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

import wirecodec as wc
from tests.walks import walk

TOPK = "topk(0.01) | rice | raw"
README = "budget(0.25) | rice | error-bounded"


def make_model(seed: int) -> dict[str, Any]:
    rng = np.random.default_rng(seed)
    return {f"{i:02}": rng.standard_normal((64, 10 * i + 10)).astype(np.float32) for i in range(20)}


def encode(scheme: str) -> Callable[[], Any]:
    x = np.random.default_rng(0).standard_normal(100_000).astype(np.float32)
    return lambda: wc.encode(x, scheme)


def step(scheme: str, scope: Any = "tensor") -> Callable[[], Any]:
    compressor, models = wc.Compressor(scheme, scope=scope), cycle([make_model(seed) for seed in range(3)])
    return lambda: compressor.prepare(next(models)).commit()


class Limit(NamedTuple):
    """Most files, calls and depth of a walk."""

    files: int
    calls: int
    depth: int


WALKS = [
    # name, call, limit, goal
    ("encode, topk", lambda: encode(TOPK), Limit(22, 66, 10), Limit(24, 80, 10)),
    ("encode, README's scheme", lambda: encode(README), Limit(32, 190, 15), Limit(32, 250, 16)),
    ("step, topk", lambda: step(TOPK), Limit(35, 171, 10), Limit(36, 250, 10)),
    ("step, README's scheme", lambda: step(README, "group"), Limit(53, 332, 16), Limit(50, 500, 16)),
]


@pytest.mark.parametrize(("name", "make", "limit", "goal"), WALKS, ids=[row[0] for row in WALKS])
def test_a_call_is_short_to_walk(name: str, make: Any, limit: Limit, goal: Limit) -> None:
    found = walk(make(), ["wirecodec"])
    measured = Limit(found.files, found.calls, found.depth)
    assert all(n <= most for n, most in zip(measured, limit, strict=True)), f"{name}: {measured}\n{found}"


def test_a_walk_counts_files_calls_and_depth(tmp_path: Path) -> None:
    hall = """
def enter(go):
    go()
    return list(count())

def count():
    yield 1
    yield 2
"""
    texts = {"house/hall.py": hall, "garden/path.py": "def step():\n    return 0\n"}
    found: dict[str, Any] = {}
    for place, text in texts.items():
        path = tmp_path / place
        path.parent.mkdir()
        path.write_text(text)
        exec(compile(text, str(path), "exec"), found)

    def measure(*packages: str) -> Limit:
        one = walk(lambda: found["enter"](found["step"]), packages, tmp_path)
        return Limit(one.files, one.calls, one.depth)

    assert measure("house") == Limit(1, 4, 2)  # enter, and the generator, which is resumed three times
    assert measure("house", "garden") == Limit(2, 5, 2)
    assert measure("garden") == Limit(1, 1, 1)
