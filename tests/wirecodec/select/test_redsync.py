"""redsync: k to 2k elements of light tails."""

from __future__ import annotations

from typing import Any

import numpy as np

import wirecodec as wc
from tests import oracles
from tests.wirecodec.select.choices import chosen


def test_redsync_finds_k_to_2k_of_light_tails() -> None:
    x = np.random.default_rng(4).laplace(size=100_000)
    for ratio in (0.1, 0.01, 0.001):
        k = oracles.selected_count(str(ratio), x.size)
        assert k <= len(chosen(wc.selectors.RedSync(ratio), x)) <= 2 * k


def test_redsync_misses_heavy_tails(gradient: Any) -> None:
    """A baseline: it may keep far from k elements, but all of them are above one threshold."""
    indices = chosen(wc.selectors.RedSync(0.001), gradient)
    assert 0 < len(indices) < gradient.size
    assert indices == chosen(wc.selectors.TopK(k=len(indices)), gradient)
