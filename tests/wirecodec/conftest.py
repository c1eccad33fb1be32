"""What several tests of the library share."""

from __future__ import annotations

from typing import Any

import pytest

from wirecodec.kernels.cpu import threads
from wirecodec.select import topk_exact


@pytest.fixture
def on_threads(monkeypatch: pytest.MonkeyPatch) -> Any:
    """A function that has small arrays shared out among as many threads as it says."""

    def share_out(n: int) -> None:
        monkeypatch.setattr(threads, "thread_count", lambda: n)
        monkeypatch.setattr(topk_exact, "MIN_UNITS_PER_THREAD", 1)
        monkeypatch.setattr(topk_exact, "MIN_PARALLEL_CANDIDATES", 1)

    return share_out
