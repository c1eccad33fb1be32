"""Tests of sign-scale beyond round trips with the reference."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import wirecodec as wc
from tests import oracles
from tests.wirecodec.value.sections import round_trip

FINITE = st.floats(-(2.0**120), 2.0**120, width=32)


@settings(max_examples=120)
@given(st.lists(FINITE, min_size=1, max_size=200))
def test_sign_scale_contracts(values: list[float]) -> None:
    """‖v - Q(v)‖² = ‖v‖² - ‖v‖₁²/r if the scale is the mean, hence at most (1 - 1/r) ‖v‖²."""
    v = np.array(values, np.float32)
    exact = [Fraction(float(a)) for a in v]
    error = sum(
        (
            (a - Fraction(float(b))) ** 2
            for a, b in zip(exact, round_trip(wc.codecs.SignScale(), v), strict=True)
        ),
        Fraction(0),
    )
    square, r = sum((a * a for a in exact), Fraction(0)), len(values)
    mean = sum((abs(a) for a in exact), Fraction(0)) / r
    ulp = Fraction(float(np.spacing(np.float32(mean))))
    assert abs(error - (square - r * mean**2)) <= r * ulp**2
    assert error <= (1 - Fraction(1, r)) * square + r * ulp**2


def test_the_bound_is_met_by_one_value_among_zeros() -> None:
    v = np.zeros(64, np.float32)
    v[5] = -64
    assert np.array_equal(np.sort(round_trip(wc.codecs.SignScale(), v)), [-1.0] + [1.0] * 63)
    assert ((v - round_trip(wc.codecs.SignScale(), v)) ** 2).sum() == (1 - 1 / 64) * 64**2


@settings(max_examples=100)
@given(FINITE, st.integers(1, 5000), st.integers(0, 2**32 - 1))
def test_equal_magnitudes_come_back_exactly(magnitude: float, r: int, seed: int) -> None:
    signs = np.random.default_rng(seed).choice([-1.0, 1.0], r)
    for dtype in (np.float32, np.float64):
        v = (signs * magnitude).astype(dtype)
        assert np.array_equal(round_trip(wc.codecs.SignScale(), v), v)
    v = signs * (magnitude / 3)
    assert np.array_equal(round_trip(wc.codecs.SignScale(), v), v)


def test_equal_magnitudes_of_every_type(rng: np.random.Generator, dtype: np.dtype[Any]) -> None:
    for bits in rng.integers(1, 0x7B00, 40):
        magnitude = np.array([bits], np.uint16).view(np.float16).astype(dtype)
        v = np.copysign(magnitude, rng.normal(size=1234).astype(dtype))
        assert np.array_equal(round_trip(wc.codecs.SignScale(), v), v)


def test_sections_follow_the_spec_page(rng: np.random.Generator, dtype: np.dtype[Any]) -> None:
    for r in (1, 7, 8, 63, 64, 65, 100, 128, 1000):
        v = (rng.standard_t(1.5, r).clip(-1000, 1000) * (rng.random(r) > 0.1)).astype(dtype)
        numbers = [float(x) for x in v]
        mean = oracles.lane_sum([abs(x) for x in numbers], 64) / r
        section = wc.codecs.SignScale().encode(v, 0)
        head, form = (8, "<f8") if dtype == np.float64 else (4, "<f4")
        assert section[:head].view(form)[0] == np.dtype(form).type(mean)
        assert np.array_equal(np.unpackbits(section[head:], count=r, bitorder="little"), v < 0)
        scale = oracles.round_to(float(section[:head].view(form)[0]), dtype)
        assert round_trip(wc.codecs.SignScale(), v).astype(float).tolist() == [
            -scale if x < 0 else scale for x in numbers
        ]


def test_zeros_are_positive() -> None:
    assert round_trip(wc.codecs.SignScale(), np.array([-0.0, 0.0, -2.0, 2.0])).tolist() == [
        1.0,
        1.0,
        -1.0,
        1.0,
    ]
    zeros = round_trip(wc.codecs.SignScale(), np.array([-0.0, 0.0, -0.0], np.float32))
    assert zeros.view(np.uint32).tolist() == [0, 0, 0]


def test_float64_sums_that_overflow() -> None:
    most = np.finfo(np.float64).max
    v = np.array([most, -most, most / 2, most / 2])
    assert np.abs(round_trip(wc.codecs.SignScale(), v)).tolist() == [most * 0.75] * 4
    assert np.isfinite(round_trip(wc.codecs.SignScale(), np.append(np.full(999, most), -1.0))).all()


def test_section_sizes() -> None:
    for r in (1, 8, 9, 1000):
        for dtype, head in ((np.float16, 4), (np.float32, 4), (np.float64, 8)):
            assert len(wc.codecs.SignScale().encode(np.ones(r, dtype), 0)) == head + math.ceil(r / 8)


@pytest.mark.nightly
def test_error_feedback_converges(rng: np.random.Generator) -> None:
    """With one bit per element, the distance to a badly scaled quadratic's minimum falls below 0.01 %."""
    curvature, target = 10.0 ** rng.uniform(-2, 0, 40), rng.normal(size=40)
    c = wc.Compressor("all | raw-index | sign-scale")
    w = np.zeros(40)
    for _ in range(3000):
        w -= 0.3 * c.decompress(c.compress({"w": curvature * (w - target)}))["w"].values
    assert np.linalg.norm(w - target) < 1e-4 * np.linalg.norm(target)


@pytest.mark.parametrize("scheme", ["all | raw-index | sign-scale", "topk(0.1) | rice | sign-scale"])
def test_scheme_string_round_trip(scheme: str) -> None:
    assert str(wc.Scheme.parse(scheme)) == scheme
