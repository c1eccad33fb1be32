"""An interrupt at any call of ``apply`` leaves the old state or the new one; the next call completes it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import wirecodec as wc
from tests.collectives.test_worker import interrupt
from tests.wirecodec.patch.weights import copy, is_equal, make_state, train
from wirecodec.kernels.cpu import threads

STRIDE = 7
"""Events between two interrupts of a run; the first one is another in each of the cases."""
MISSES = 3
"""Runs in sequence without an interrupt that tell the end of a call."""


def make_pair() -> tuple[dict[str, Any], dict[str, Any]]:
    """Make two states: tensors that share an entry, a strided one, and some that are new, gone, or kept."""
    old: dict[str, Any] = make_state(layers=1, width=32)
    new: dict[str, Any] = train(old, 1e-4)
    old |= {"strided": np.arange(40, dtype="f4")[::2], "gone": np.zeros(2), "kept": np.arange(9)}
    new |= {"strided": old["strided"] + (np.arange(20) % 3 == 0), "new": np.ones(3), "kept": np.arange(9)}
    return old, new


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize("threads_of", [1, 2])
@pytest.mark.parametrize("base", ["read", "unread"])
def test_an_interrupt_at_any_call(base: str, threads_of: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(threads, "thread_count", lambda: threads_of)
    old, new = make_pair()
    patch = wc.diff(old, new, base=base)
    seen = set()

    def is_interrupted(number: int) -> bool:
        state = copy(old)
        state["strided"] = np.repeat(old["strided"], 2)[::2]
        if not interrupt(lambda: wc.apply(patch, state), number):
            return False
        is_old = is_equal(state, old)
        assert is_old or is_equal(state, new)
        seen.add(is_old)
        wc.apply(patch, state)
        assert is_equal(state, new)
        return True

    number, misses = 1 + 2 * threads_of + (base == "read"), 0
    while misses < MISSES:  # one may also be lost, in a callback of Python's import system
        misses = 0 if is_interrupted(number) else misses + 1
        number += STRIDE
    assert number > 1000
    for last in range(number - 2 * MISSES * STRIDE, number - MISSES * STRIDE):
        is_interrupted(last)
    assert seen == {True, False}
