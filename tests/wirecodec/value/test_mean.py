"""Tests of mean beyond round trips with the reference."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import wirecodec as wc
from tests.wirecodec.value.sections import round_trip


@settings(max_examples=120)
@given(st.lists(st.floats(-(2.0**120), 2.0**120, width=32), min_size=1, max_size=200))
def test_decoded_value_is_the_mean(values: list[float]) -> None:
    v = np.array(values, np.float32)
    exact = sum((Fraction(float(x)) for x in v), Fraction(0)) / v.size
    size = sum((abs(Fraction(float(x))) for x in v), Fraction(0)) / v.size
    got = round_trip(wc.codecs.Mean(), v)
    assert len(set(got.view(np.uint32).tolist())) == 1
    assert abs(Fraction(float(got[0])) - exact) <= size * Fraction(1, 2**40) + Fraction(
        float(np.spacing(np.abs(got[0])))
    )


def test_equal_values_are_preserved(dtype: np.dtype[Any]) -> None:
    for number in (1.0, -0.0, 1 / 3, -65504.0, 6e-8):
        v = np.full(1000, number).astype(dtype)
        assert round_trip(wc.codecs.Mean(), v).tobytes() == v.tobytes()


@pytest.mark.parametrize("sign", [1, -1])
def test_a_sum_beyond_float64(sign: int) -> None:
    most = sign * np.finfo(np.float64).max
    assert round_trip(wc.codecs.Mean(), np.array([most, most / 2, most])).tolist() == pytest.approx(
        [most / 1.2] * 3, rel=1e-15
    )


def test_value_section_takes_four_bytes() -> None:
    indices = np.arange(0, 100_000, 97, dtype=np.int32)
    blob = wc.encode(
        wc.SparseTensor(indices, np.ones(indices.size, np.float32), 100_000), "all | rice | mean"
    )
    (entry,) = wc.inspect(blob).entries
    assert entry.value_bytes == 4
    assert np.array_equal(wc.decode(blob).indices, indices)
