"""Fixtures that several tests of the library share."""

from __future__ import annotations

from typing import Any

import pytest

from wirecodec.kernels.cpu import threads
from wirecodec.select import term_table
from wirecodec.select.topk import exact as topk_exact


@pytest.fixture
def on_threads(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Return a function that sets the number of threads, which then also share small arrays."""

    def set_threads(n: int) -> None:
        monkeypatch.setattr(threads, "thread_count", lambda: n)
        monkeypatch.setattr(topk_exact, "MIN_UNITS_PER_THREAD", 1)
        monkeypatch.setattr(topk_exact, "MIN_PARALLEL_CANDIDATES", 1)
        monkeypatch.setattr(term_table, "MIN_ELEMENTS_PER_THREAD", 1)

    return set_threads
