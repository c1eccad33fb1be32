"""What the ranks contribute in the tests, and what an all-reduce of it must give, by definition."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np

import wirecodec as wc

DTYPES = [np.dtype(name) for name in ("float32", "float16", "float64")] + [np.dtype(ml_dtypes.bfloat16)]
NAMES = [dtype.name for dtype in DTYPES]
SCHEMES = [None, "topk(0.05) | rice | raw", "topk(0.1) | bitmap | qsgd(bits=4)", "all | raw-index | raw"]


def gradient(rank: int, shape: Any = 1000, dtype: Any = "float32") -> np.ndarray:
    """Another tensor on every rank, with zeros of both signs and values of very different size."""
    rng = np.random.default_rng([11, rank])
    x = rng.standard_normal(shape) * 10.0 ** rng.integers(-3, 3, shape)
    x = np.where(rng.random(shape) < 0.3, np.where(rng.random(shape) < 0.5, 0.0, -0.0), x)
    return x.astype(dtype)


def ordered_sum(tensors: list[np.ndarray], scheme: str | None, op: str) -> np.ndarray:
    """Σ decode(encode(tensor)) in rank order from +0, in at least float32, rounded once."""
    dtype = tensors[0].dtype
    total = np.zeros(tensors[0].shape, dtype if dtype.itemsize >= 4 else np.float32)
    for tensor in tensors:
        total = total + wc.decode(wc.encode(tensor, scheme)).to_dense().astype(total.dtype)
    if op == "mean":
        total = total / total.dtype.type(len(tensors))
    return total.astype(dtype)


def bits(x: np.ndarray) -> bytes:
    return x.dtype.name.encode() + str(x.shape).encode() + np.ascontiguousarray(x).tobytes()
