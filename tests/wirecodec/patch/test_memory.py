"""Neither side has a second copy of the model in memory: only what changes, and parts of it for a while."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable
from importlib import import_module
from typing import Any, Literal

import ml_dtypes
import numpy as np
import pytest

import wirecodec as wc
from tests.wirecodec.patch.weights import is_equal
from wirecodec.kernels.cpu import threads
from wirecodec.patch import states

TENSORS, SIZE = 128, 2**16
MODEL = 2 * TENSORS * SIZE
"""Bytes of the model."""
Order = Literal["C", "F"]


def measure_peak(call: Callable[[], Any]) -> int:
    """Return the most bytes that a call has allocated at a time."""
    tracemalloc.start()
    try:
        call()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@pytest.fixture(autouse=True)
def small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Divide a small model into as many parts as a large one."""
    monkeypatch.setattr(states, "BATCH", 2**17)
    monkeypatch.setattr(import_module("wirecodec.patch.diff"), "SHARED", 2**17)  # a function has its name
    monkeypatch.setattr(threads, "thread_count", lambda: 1)


def make_pair(share: float, order: Order) -> tuple[dict[str, Any], dict[str, Any]]:
    rng = np.random.default_rng(0)
    old, new = {}, {}
    for number in range(TENSORS):
        x = rng.normal(0, 0.02, (256, SIZE // 256)).astype(ml_dtypes.bfloat16)
        y = x.copy()
        y.view(np.uint16)[rng.random(x.shape) < share] += 1
        old[f"w{number:02}"], new[f"w{number:02}"] = (np.array(each, order=order) for each in (x, y))
    return old, new


@pytest.mark.parametrize("base", ["read", "unread"])
@pytest.mark.parametrize(
    ("share", "order", "of_diff", "of_apply"),
    [(0.01, "C", 0.1, 0.15), (0.01, "F", 0.25, 0.15), (0.9, "C", 0.6, None)],
    ids=["step", "strided", "dense"],
)
def test_no_second_copy(
    base: str, share: float, order: Order, of_diff: float, of_apply: float | None
) -> None:
    old, new = make_pair(share, order)
    patch = wc.diff(old, new, base=base)  # kernels are compiled and memory is kept from here on
    wc.apply(patch, {name: x.copy(order="K") for name, x in old.items()})
    state = {name: x.copy(order="K") for name, x in old.items()}
    assert measure_peak(lambda: wc.diff(old, new, base=base)) < of_diff * MODEL
    peak = measure_peak(lambda: wc.apply(patch, state))
    assert of_apply is None or peak < of_apply * MODEL  # all new elements are known before the first write
    assert is_equal(state, new)
