"""Vectors for top-k that mislead a sample, have ties, or are in order; and pairs to be added."""

from __future__ import annotations

from typing import Any

import numpy as np

CUTS = [1000, 4000, 4096, 4097, 8191, 8192, 65_535, 65_536, 70_000]


def family(name: str, n: int, seed: int) -> Any:
    """Return a float64 vector of n elements."""
    rng = np.random.default_rng(seed)
    x = rng.standard_t(2, n)
    made = {
        "heavy tails": x,
        "ties": rng.integers(-4, 5, n),
        "many ties": rng.integers(-400, 500, n),
        "mostly zeros": x * (rng.random(n) < 0.01),
        "rows": np.repeat(rng.random(n // 64 + 1) < 0.05, 64)[:n] * x,
        "constant": np.full(n, -1.5),
        "zeros": np.zeros(n),
        "ascending": np.arange(n) / (n + 1),
        "descending": -np.arange(n)[::-1] / (n + 1),
        "cluster": 1 + rng.random(n) / 4096,
        "denormals": x * 1e-42,
        "spikes": np.where(rng.random(n) < 0.001, 1e4, 1e-3) * x,
    }
    return made[name]


FAMILIES = [
    "heavy tails",
    "ties",
    "many ties",
    "mostly zeros",
    "rows",
    "constant",
    "zeros",
    "ascending",
    "descending",
    "cluster",
    "denormals",
    "spikes",
]


def typed(x: Any, dtype: Any) -> Any:
    """Convert to another type, within its range."""
    return np.clip(x, -6e4, 6e4).astype(dtype)


def sums(seed: int, n: int, name: str, dtype: Any) -> tuple[Any, Any]:
    rng = np.random.default_rng(seed)
    return typed(family(name, n, seed), dtype), (0.3 * rng.laplace(size=n)).round(1).astype(dtype)
