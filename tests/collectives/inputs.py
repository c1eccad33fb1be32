"""Tensors of the tests."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.oracles import Array

SCHEMES = [None, "topk(0.05) | rice | raw", "topk(0.1) | bitmap | qsgd(bits=4)", "all | raw-index | raw"]


def gradient(rank: int, shape: int | tuple[int, ...] = 1000, dtype: Any = "float32") -> Array:
    """Make a tensor that differs between ranks, with zeros of both signs and values of many magnitudes.

    Args:
        rank: any number, the seed of the tensor.
        shape: of the tensor.
        dtype: of the tensor.
    """
    rng = np.random.default_rng([11, rank])
    x = rng.standard_normal(shape) * 10.0 ** rng.integers(-3, 3, shape)
    x = np.where(rng.random(shape) < 0.3, np.where(rng.random(shape) < 0.5, 0.0, -0.0), x)
    result: Array = x.astype(dtype)
    return result


def smooth(rank: int, shape: int | tuple[int, ...] = 1000, dtype: Any = "float32") -> Array:
    """Make a gradient without zeros or ties."""
    rng = np.random.default_rng([5, rank])
    result: Array = rng.standard_normal(shape).astype(dtype)
    return result


def top(x: Array, k: int) -> Array:
    """Return the indices of the k largest magnitudes; of equal ones, those with lower indices."""
    return np.sort(np.argsort(-np.abs(x), kind="stable")[:k])


def bits(x: Array) -> bytes:
    """Return the type, the shape and the bits of an array."""
    kind = f"{x.dtype.name} {x.shape} "
    return kind.encode() + x.tobytes()
