"""nonzero: elements whose bits are not all zero."""

from __future__ import annotations

from typing import Any

import numpy as np

import wirecodec as wc
from tests.wirecodec.select.choices import chosen
from wirecodec.arrays import bits_of


def test_nonzero_goes_by_bits(dtype: np.dtype[Any]) -> None:
    x = np.array([0.0, -0.0, 1.0, np.nan, 0.0, np.inf, 1e-41]).astype(dtype)
    bits = x.view(f"u{x.dtype.itemsize}")
    assert chosen(wc.selectors.NonZero(), x) == np.flatnonzero(bits).tolist()
    assert 1 in chosen(wc.selectors.NonZero(), x)


def test_nonzero_looks_at_bits(dtype: np.dtype[Any]) -> None:
    rng = np.random.default_rng(11)
    for size in (0, 1, 63, 64, 65, 4097):
        for density in (0, 0.02, 0.5, 1):
            x = np.where(rng.random(size) < density, rng.choice([-0.0, np.nan, 1e-7, 3.0], size), 0).astype(
                dtype
            )
            expected = np.flatnonzero(bits_of(x))
            assert np.array_equal(wc.SparseTensor.from_dense(x).indices, expected)
