"""topk compared with its brute-force definition."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import wirecodec as wc
from tests import oracles
from tests.wirecodec.select.choices import chosen
from wirecodec.select.topk import fraction_count


def vectors(rng: np.random.Generator) -> dict[str, Any]:
    n = 700
    return {
        "normal": rng.normal(size=n),
        "ties": rng.integers(-3, 4, n).astype(float),
        "constant": np.full(n, -2.0),
        "zeros": np.zeros(n),
        "mostly zeros": rng.normal(size=n) * (rng.random(n) < 0.01),
        "ascending": np.arange(n, dtype=float),
        "descending": -np.arange(n, dtype=float),
        "denormals": rng.normal(size=n) * 1e-41,
        "one spike": np.where(np.arange(n) == 300, 1e4, 1e-4),
    }


def test_topk_is_the_definition(rng: np.random.Generator, dtype: np.dtype[Any]) -> None:
    for name, x in vectors(rng).items():
        y = x.astype(dtype)
        for k in (1, 2, 17, 350, 699, 700, 701):
            assert chosen(wc.selectors.TopK(k=k), y) == oracles.top_k(y, min(k, y.size)), (name, k)


@settings(max_examples=100)
@given(
    st.lists(st.floats(allow_nan=False, allow_infinity=False, width=32), min_size=1, max_size=60), st.data()
)
def test_topk_on_any_floats(values: list[float], data: st.DataObject) -> None:
    x = np.array(values, np.float32)
    k = data.draw(st.integers(1, x.size))
    assert chosen(wc.selectors.TopK(k=k), x) == oracles.top_k(x, k)


@pytest.mark.parametrize(
    ("ratio", "size"),
    [
        ("0.29", 100),
        ("0.57", 100),
        ("0.1", 10),
        ("0.001", 999),
        ("0.001", 1000),
        ("0.07", 2**31),
        ("1e-7", 3 * 10**7),
    ],
)
def test_k_is_exact_decimal(ratio: str, size: int) -> None:
    assert fraction_count(float(ratio), size) == oracles.selected_count(ratio, size)


@given(st.decimals(min_value="0.000001", max_value="1", places=6), st.integers(0, 10**9))
def test_k_is_exact_decimal_anywhere(ratio: Any, size: int) -> None:
    assert fraction_count(float(ratio), size) == min(size, max(1, int(Fraction(ratio) * size)) if size else 0)


def test_topk_of_real_gradients(gradient: Any) -> None:
    for ratio in (0.1, 0.01, 0.001):
        found = chosen(wc.selectors.TopK(ratio), gradient)
        order = np.lexsort((np.arange(gradient.size), -np.abs(gradient)))
        assert found == np.sort(order[: int(gradient.size * ratio)]).tolist()


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_topk_reports_the_first_nonfinite(dtype: np.dtype[Any], bad: float) -> None:
    x = np.ones(10_000).astype(dtype)
    x[[5000, 7000]] = bad
    with pytest.raises(wc.EncodeError, match="element 5000: topk cannot carry") as caught:
        wc.selectors.TopK(0.01).select(x)
    assert caught.value.position == 5000


def test_topk_of_an_empty_tensor() -> None:
    assert chosen(wc.selectors.TopK(0.5), np.empty(0, np.float32)) == []


def test_topk_needs_one_parameter() -> None:
    for wrong in (
        {},
        {"ratio": 0.1, "k": 2},
        {"ratio": 0},
        {"ratio": 1.5},
        {"k": 0},
        {"k": 2.0},
        {"ratio": float("nan")},
    ):
        with pytest.raises(wc.EncodeError):
            wc.selectors.TopK(**wrong)
