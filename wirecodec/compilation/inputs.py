"""Synthetic tensors and supports that reach every kernel of a scheme."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from wirecodec.arrays import Array, read_only

SMALL, SAMPLED, LARGE = 1000, 70_001, 2**22
"""Elements of tensors without a sample, with a sample, and with several threads."""


def make_tensors(dtype: np.dtype[Any]) -> dict[str, Array]:
    """Make named tensors: small and sampled, dense and sparse, with few elements, with and without ties."""
    rng = np.random.default_rng(0)
    values = rng.laplace(size=SAMPLED)
    runs = np.repeat(rng.random(SAMPLED // 64 + 1) < 0.1, 64)[:SAMPLED]
    tensors = {
        "small": values[:SMALL],
        "dense": values,
        "sparse": values * (rng.random(SAMPLED) < 0.1),
        "runs": values * runs,
        "tied": np.sign(values),
        "few": values[: 4 * SMALL] * (rng.random(4 * SMALL) < 0.05),
    }
    return {name: x.astype(dtype) for name, x in tensors.items()}


def make_large_tensor(dtype: np.dtype[Any]) -> Array:
    """Make a tensor that selectors divide among threads."""
    block = np.random.default_rng(1).laplace(size=2**16).astype(dtype)
    return np.tile(block, LARGE // block.size)


def make_supports() -> Iterator[tuple[int, Array]]:
    """Yield (d, ascending u32 indices): uniform, in runs, in a grid, almost full, and few."""
    rng = np.random.default_rng(2)
    d = 16 * 4096
    runs = np.repeat(rng.random(d // 64) < 0.1, 64)
    grid = (rng.random(d // 64) < 0.5)[:, None] & (np.arange(64) < 2)
    for present in (rng.random(d) < 0.1, runs, grid.ravel(), rng.random(d) < 0.9, rng.random(d) < 0.001):
        yield d, read_only(np.flatnonzero(present).astype(np.uint32))
