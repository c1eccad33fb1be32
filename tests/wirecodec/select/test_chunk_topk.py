"""chunk-topk: less energy than topk, and chunks of any size and scale."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

import wirecodec as wc
from tests import oracles
from tests.conftest import DTYPES
from tests.wirecodec.select.choices import chosen


def test_chunks_keep_less_energy(gradient: Any) -> None:
    def energy(selector: Any) -> float:
        return float((gradient[chosen(selector, gradient)].astype(float) ** 2).sum())

    assert (
        energy(wc.selectors.ChunkTopK(0.01, 100))
        < energy(wc.selectors.ChunkTopK(0.01, 10_000))
        < energy(wc.selectors.TopK(0.01))
    )
    assert chosen(wc.selectors.ChunkTopK(0.01, gradient.size), gradient) == chosen(
        wc.selectors.TopK(0.01), gradient
    )


@settings(max_examples=60)
@given(
    st.integers(1, 5000),
    st.one_of(st.integers(1, 70), st.integers(1, 5000)),
    st.sampled_from([0.001, 0.01, 0.03, 0.1, 0.4, 0.9]),
    st.sampled_from(DTYPES),
    st.sampled_from(["scales", "few values", "zeros", "steps"]),
    st.integers(0, 2**32),
)
def test_chunks_of_any_size_and_scale(
    n: int, chunk: int, ratio: float, dtype: np.dtype[Any], kind: str, seed: int
) -> None:
    """The threshold of one chunk is of little use to the next where scales change from chunk to chunk."""
    rng = np.random.default_rng(seed)
    x = rng.laplace(size=n)
    scale = np.repeat(10.0 ** rng.integers(-7, 5, n // chunk + 1), chunk)[:n]
    made = {
        "scales": scale * x,
        "few values": rng.integers(-3, 4, n) * scale,
        "zeros": x * (rng.random(n) < 0.02),
        "steps": np.round(x) + scale,
    }[kind]
    x = np.clip(made, -6e4, 6e4).astype(dtype)
    assert chosen(wc.selectors.ChunkTopK(ratio, chunk), x) == oracles.chunk_top_k(x, str(ratio), chunk)
