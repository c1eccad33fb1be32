"""Memory that a thread keeps for its next call."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np

from wirecodec.kernels.scratch import borrow


def test_users_at_the_same_time_have_different_memory() -> None:
    """A second user comes from a signal handler, or from another thread."""

    def shares(x: Any) -> bool:
        with borrow("test", (1000,), np.uint32) as mine:
            return np.shares_memory(mine, x)

    with borrow("test", (1000,), np.uint32) as first, ThreadPoolExecutor(1) as other:
        assert not shares(first)
        assert not other.submit(shares, first).result()
    assert shares(first)


def test_memory_grows() -> None:
    with borrow("test", (10,), np.uint16) as small:
        assert small.shape == (10,)
    with borrow("test", (1000, 10), np.float64) as large:
        assert large.shape == (1000, 10)
    with borrow("test", (0, 3), np.uint8) as empty:
        assert empty.shape == (0, 3)
