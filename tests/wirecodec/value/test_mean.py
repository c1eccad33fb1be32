"""mean: what it promises beyond a round trip with the reference."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import wirecodec as wc
from tests.wirecodec.value.sections import sent


@settings(max_examples=300, deadline=None)
@given(st.lists(st.floats(-(2.0**120), 2.0**120, width=32), min_size=1, max_size=200))
def test_it_is_the_mean(values: list[float]) -> None:
    v = np.array(values, np.float32)
    exact = sum((Fraction(float(x)) for x in v), Fraction(0)) / v.size
    size = sum((abs(Fraction(float(x))) for x in v), Fraction(0)) / v.size
    got = sent(wc.Mean(), v)
    assert len(set(got.view(np.uint32).tolist())) == 1
    assert abs(Fraction(float(got[0])) - exact) <= size * Fraction(1, 2**40) + Fraction(
        float(np.spacing(np.abs(got[0])))
    )


def test_values_that_are_alike_come_back(dtype: np.dtype[Any]) -> None:
    for number in (1.0, -0.0, 1 / 3, -65504.0, 6e-8):
        v = np.full(1000, number).astype(dtype)
        assert sent(wc.Mean(), v).tobytes() == v.tobytes()


@pytest.mark.parametrize("sign", [1, -1])
def test_a_sum_beyond_float64(sign: int) -> None:
    most = sign * np.finfo(np.float64).max
    assert sent(wc.Mean(), np.array([most, most / 2, most])).tolist() == pytest.approx(
        [most / 1.2] * 3, rel=1e-15
    )


def test_a_set_of_indices_costs_its_index_section_and_four_bytes() -> None:
    where = np.arange(0, 100_000, 97, dtype=np.int32)
    blob = wc.encode(wc.SparseTensor(where, np.ones(where.size, np.float32), 100_000), "all | rice | mean")
    (entry,) = wc.inspect(blob).entries
    assert entry.value_bytes == 4
    assert np.array_equal(wc.decode(blob).indices, where)
