"""Shared test inputs: supports and values that cover the edge cases of all codecs."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]


def support(rng: np.random.Generator, d: int, r: int) -> Array:
    """Draw r of d indices uniformly: ascending u32."""
    return np.sort(rng.choice(d, r, replace=False)).astype(np.uint32)


def supports(rng: np.random.Generator) -> dict[str, tuple[int, Array]]:
    """Return {name: (d, indices)} for the edge cases of index codecs; 0 < r < d."""
    embedding = (np.sort(rng.choice(2000, 40, replace=False))[:, None] * 64 + np.arange(64)).ravel()
    layered = np.concatenate([support(rng, 50_000, 4000), 50_000 + support(rng, 1_000_000, 800)])
    spikes = np.cumsum(np.where(np.arange(3000) % 256 == 0, 4000, 1))
    cases = {
        "one of two": (2, np.array([1])),
        "first of many": (2**24, np.array([0])),
        "last of many": (2**24, np.array([2**24 - 1])),
        "first and last": (2**24, np.array([0, 2**24 - 1])),
        "all but the first": (1000, np.arange(1, 1000)),
        "all but the last": (65_537, np.arange(65_536)),
        "one run": (100_000, np.arange(5_000, 13_000)),
        "embedding rows": (128_000, embedding),
        "layers": (1_050_000, layered),
        "spikes": (200_000, spikes),
        "every other": (20_000, np.arange(0, 20_000, 2)),
    }
    for r in (255, 256, 257, 4095, 4096, 4097, 8192, 8193, 20_000):
        cases[f"{r} of a million"] = (1_000_000, support(rng, 1_000_000, r))
    for d in (7, 8, 9, 63, 64, 65, 65_536, 65_537):
        cases[f"half of {d}"] = (d, support(rng, d, d // 2))
    return {name: (d, np.ascontiguousarray(s, np.uint32)) for name, (d, s) in cases.items()}


def value_vectors(rng: np.random.Generator, dtype: Any) -> dict[str, Array]:
    """Return {name: values} for the edge cases of value codecs; finite, r > 0."""
    info_max = {"float16": 65504.0, "bfloat16": 3.3895e38, "float32": 3.4028e38, "float64": 3.4028e38}
    largest = info_max[np.dtype(dtype).name]
    cases: dict[str, Any] = {
        "one": [0.5],
        "zero": [0.0],
        "minus zero": [-0.0, 0.0, -0.0],
        "constant": np.full(700, -0.25),
        "laplace": rng.laplace(size=5000),
        "heavy tails": rng.standard_t(1.5, 2000).clip(-60_000, 60_000),
        "denormals": rng.normal(size=600) * 1e-41,
        "largest": np.where(np.arange(40) % 2, largest, -largest),
        "zero bucket": np.concatenate([np.zeros(512), rng.normal(size=512), np.zeros(16)]),
    }
    for r in (15, 16, 17, 511, 512, 513, 1024, 1025):
        cases[f"{r} values"] = rng.normal(size=r)
    return {name: np.asarray(v, np.float64).astype(dtype) for name, v in cases.items()}
