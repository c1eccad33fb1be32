"""gaussiank: about k elements of a normal distribution."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import wirecodec as wc
from tests.wirecodec.select.choices import chosen


def test_gaussiank_is_near_k_of_a_normal_distribution() -> None:
    x = np.random.default_rng(4).normal(size=100_000)
    for ratio in (0.1, 0.01, 0.001):
        assert len(chosen(wc.selectors.GaussianK(ratio), x)) == pytest.approx(ratio * x.size, rel=0.3)


def test_gaussiank_misses_heavy_tails(gradient: Any) -> None:
    """A baseline: it may keep far from k elements, but all of them are above one threshold."""
    indices = chosen(wc.selectors.GaussianK(0.001), gradient)
    assert 0 < len(indices) < gradient.size
    assert indices == chosen(wc.selectors.TopK(k=len(indices)), gradient)
