"""threshold: thresholds rounded to the element type, and results of any length."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np

import wirecodec as wc
from tests import oracles
from tests.wirecodec.select.choices import chosen


def test_many_elements_at_a_time() -> None:
    """The room for what is found grows where the guess was small."""
    x = np.random.default_rng(0).normal(size=300_000).astype(np.float32)
    for t in (1e-9, 0.1, 2.0, 5.0):
        assert np.array_equal(
            chosen(wc.selectors.Threshold(t), x), np.flatnonzero(np.abs(x) >= np.float32(t))
        )
    late = np.where(np.arange(300_000) < 290_000, 0, x)
    assert np.array_equal(wc.selectors.Threshold(1e-9).select(late).indices, np.flatnonzero(late))


def test_thresholds_round_to_the_type(dtype: np.dtype[Any]) -> None:
    t = float(Fraction(1) + Fraction(1, 2**8) + Fraction(1, 2**40))
    near = np.array([oracles.round_to(t, dtype)]).astype(dtype)
    x = np.concatenate([near, np.nextafter(near, near.dtype.type(0)), -near])
    assert chosen(wc.selectors.Threshold(t), x) == [0, 2]
