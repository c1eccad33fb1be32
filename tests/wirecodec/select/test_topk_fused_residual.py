"""Top k of a sum, found and cleared in one pass, compared with adding, sorting and clearing."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import wirecodec as wc
from tests import oracles
from tests.wirecodec.select.vectors import CUTS, FAMILIES, family, sums, typed
from wirecodec.arrays import aligned, bits_of
from wirecodec.cpu.fast.sums import select_sum


@settings(max_examples=100)
@given(
    st.one_of(st.integers(2, 70_000), st.sampled_from(CUTS)),
    st.sampled_from(FAMILIES),
    st.sampled_from([np.float32, np.float64]),
    st.floats(0, 0.5),
    st.integers(0, 2**32),
)
def test_top_of_a_sum(n: int, name: str, dtype: Any, share: float, seed: int) -> None:
    gradient, residual = sums(seed, n, name, dtype)
    before = gradient.copy(), residual.copy()
    x, rest = gradient + residual, aligned(n, dtype)
    k = max(1, int(share * n))
    found = select_sum(wc.selectors.TopK(k=k), gradient, residual, rest)
    assert np.array_equal(before[0], gradient)
    assert np.array_equal(before[1], residual)
    if found is not None:
        where = oracles.top_k_sorted(x, k)
        assert np.array_equal(found.indices, where)
        assert np.array_equal(bits_of(found.values), bits_of(x)[where])
        x[where] = 0
        assert np.array_equal(bits_of(rest), bits_of(x))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_top_of_a_sum_from_threads(dtype: Any, on_threads: Any) -> None:
    for name in ("heavy tails", "many ties", "ascending", "descending"):
        gradient, residual = sums(4, 150_001, name, dtype)
        x = gradient + residual
        for n in (1, 2, 3):
            on_threads(n)
            for k in (1, 150, 15_000):
                rest = aligned(x.size, dtype)
                found = select_sum(wc.selectors.TopK(k=k), gradient, residual, rest)
                if found is None:  # many tie at the threshold
                    assert name == "many ties"
                    continue
                where = oracles.top_k_sorted(x, k)
                assert np.array_equal(found.indices, where), (name, n, k)
                left = x.copy()
                left[where] = 0
                assert np.array_equal(bits_of(rest), bits_of(left)), (name, n, k)


@pytest.mark.parametrize("scheme", ["topk(0.01) | rice | raw", "topk(0.1) | rice | qsgd(bits=4)"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.float16])
def test_a_compressor_in_one_pass_does_as_in_several(
    scheme: str, dtype: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Bytes, residuals and errors are the same if sums are computed in the sweep or before it."""
    steps = [typed(family("heavy tails", 20_011, seed), dtype) for seed in range(4)]
    steps.append(np.zeros_like(steps[0]))
    if dtype == np.float32:
        steps += [np.full_like(steps[0], 3e38), np.full_like(steps[0], 2e38)]
    steps.append(steps[0])

    def run() -> list[Any]:
        c = wc.Compressor(scheme, seed=3)
        seen = []
        for g in steps:
            c.prepare({"w": g}).rollback()
            late = c.prepare({"w": g})
            before, prepared = c.residual("w"), c.prepare({"w": g})
            assert before is None or np.array_equal(before, c.residual("w"))
            prepared.commit()
            late.rollback()
            seen += [prepared.blob, c.residual("w")]
        broken = steps[0].copy()
        broken[77] = np.inf
        with pytest.raises(wc.EncodeError) as caught:
            c.prepare({"w": broken})
        assert caught.value.position == 77
        return seen

    in_one = run()
    monkeypatch.setattr(wc.selectors.TopK, "select_joint", lambda *a: None)
    assert all(np.array_equal(bits_of(a), bits_of(b)) for a, b in zip(in_one, run(), strict=True))
