"""Tests of 3lc beyond round trips with the reference."""

from __future__ import annotations

import math
from fractions import Fraction
from itertools import groupby
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import wirecodec as wc
from tests import oracles
from tests.wirecodec.value.sections import encode_section, round_trip

FINITE = st.floats(-(2.0**120), 2.0**120, width=32)
SPARSITY = st.floats(1, 2, exclude_max=True)
SMALLEST = {"float32": 2.0**-149, "float16": 2.0**-24, "bfloat16": 2.0**-133, "float64": 2.0**-149}


def expected_size(levels: Any) -> int:
    """Compute a section's bytes from the paper: five levels per byte, up to 14 zero bytes in one."""
    padded = np.append(levels, np.zeros(-len(levels) % 5, int)).reshape(-1, 5)
    runs = [(key, len(list(group))) for key, group in groupby(not five.any() for five in padded)]
    return 4 + sum(math.ceil(n / 14) if zeros else n for zeros, n in runs)


@settings(max_examples=120)
@given(st.lists(FINITE, min_size=1, max_size=400), SPARSITY)
def test_levels_follow_the_spec_page(values: list[float], sparsity: float) -> None:
    """v / M is rounded to nearest, ties away from zero; the test computes with fractions."""
    v = np.array(values, np.float32)
    got = round_trip(wc.codecs.ThreeLC(sparsity), v)
    top = float(np.abs(v).max())
    scale = Fraction(oracles.round_to(top * sparsity, np.float32))
    half = Fraction(oracles.round_to(float(scale / 2), np.float32))
    for x, y in zip(v.tolist(), got.tolist(), strict=True):
        level = 0 if x == 0 or abs(Fraction(x)) < half else 1 if x > 0 else -1
        assert Fraction(y) == level * scale
    assert not np.signbit(got[got == 0]).any()


@settings(max_examples=120)
@given(st.lists(FINITE, min_size=1, max_size=100), SPARSITY)
def test_three_lc_contracts(values: list[float], sparsity: float) -> None:
    """No error exceeds its value; the largest value's error is (sparsity - 1) times it."""
    v = np.array(values, np.float32)
    errors = [
        abs(Fraction(float(a)) - Fraction(float(b)))
        for a, b in zip(v, round_trip(wc.codecs.ThreeLC(sparsity), v), strict=True)
    ]
    top = Fraction(float(np.abs(v).max()))
    slack = Fraction(float(np.spacing(np.float32(2 * top))))
    assert all(e <= abs(Fraction(float(x))) + slack for e, x in zip(errors, v, strict=True))
    if Fraction(sparsity) < 2 - Fraction(1, 2**20):
        assert errors[int(np.abs(v).argmax())] <= (Fraction(sparsity) - 1) * top + slack


@settings(max_examples=120)
@given(st.lists(st.tuples(st.sampled_from([0, 0, 0, 1, -1]), st.integers(1, 200)), min_size=1, max_size=30))
def test_section_sizes_of_runs(pieces: list[tuple[int, int]]) -> None:
    levels = np.concatenate([np.full(n, level) for level, n in pieces])
    section = encode_section(wc.codecs.ThreeLC(), levels.astype(np.float32))
    assert section.size == expected_size(levels)
    assert np.array_equal(round_trip(wc.codecs.ThreeLC(), levels.astype(np.float32)), levels)


@pytest.mark.parametrize("density", [0.001, 0.01, 0.05, 0.2, 0.5, 1])
def test_large_sections(rng: np.random.Generator, density: float) -> None:
    levels = rng.choice([-1, 1], 100_003) * (rng.random(100_003) < density)
    section = encode_section(wc.codecs.ThreeLC(), levels.astype(np.float32))
    assert section.size == expected_size(levels)
    assert np.array_equal(round_trip(wc.codecs.ThreeLC(), levels.astype(np.float32)), levels)


def test_zeros_take_a_seventieth_of_a_byte() -> None:
    assert encode_section(wc.codecs.ThreeLC(), np.zeros(7000, np.float32)).size == 4 + 100
    assert encode_section(wc.codecs.ThreeLC(), np.ones(7000, np.float32)).size == 4 + 1400


def test_scales_stay_finite_in_every_type(dtype: np.dtype[Any]) -> None:
    most = {"float16": 65504.0, "bfloat16": float.fromhex("0x1.fep127")}.get(
        dtype.name, float(np.finfo(np.float32).max)
    )
    v = np.array([most, -most, most / 4, 0]).astype(dtype)
    for sparsity in (1.0, 1.5, np.nextafter(2, 0)):
        assert round_trip(wc.codecs.ThreeLC(sparsity), v).astype(float).tolist() == [most, -most, 0, 0]


def test_smallest_magnitude_is_not_zero(dtype: np.dtype[Any]) -> None:
    v = np.array([0, -SMALLEST[dtype.name], -0.0, SMALLEST[dtype.name]]).astype(dtype)
    assert np.sign(round_trip(wc.codecs.ThreeLC(1.0), v).astype(float)).tolist() == [0, -1, 0, 1]


def test_float64_beyond_float32_raises() -> None:
    with pytest.raises(wc.EncodeError, match=r"too large for the float32 of 3lc") as caught:
        wc.codecs.ThreeLC().encode(np.array([1.0, 1e39]), 0)
    assert caught.value.position == 1


@pytest.mark.parametrize("sparsity", [0.99, 2, 2.5, -1, float("nan"), float("inf"), "1", None, True])
def test_parameter_out_of_range(sparsity: Any) -> None:
    with pytest.raises(wc.EncodeError, match="3lc: sparsity"):
        wc.codecs.ThreeLC(sparsity)


@pytest.mark.parametrize("sparsity", [1.0, 1.5])
def test_residuals_stay_bounded(rng: np.random.Generator, sparsity: float) -> None:
    """The spec page's table: residuals of 1.4 and 4 times the norm of a gradient of 1000 values."""
    residual = np.zeros(1000, np.float32)
    norms = []
    for _ in range(400):
        x = residual + rng.normal(size=1000).astype(np.float32)
        residual = x - round_trip(wc.codecs.ThreeLC(sparsity), x)
        norms.append(np.linalg.norm(residual) / math.sqrt(1000))
    assert max(norms) < {1.0: 2, 1.5: 6}[sparsity]


def test_large_learning_rates_diverge_with_high_sparsity() -> None:
    """On the spec page's quadratic with learning rate 0.3, sparsity 1 converges and 1.75 diverges."""

    def distance(sparsity: float, rate: float, steps: int) -> float:
        rng = np.random.default_rng(5)
        curvature, target = 10.0 ** rng.uniform(-2, 0, 1000), rng.normal(size=1000)
        w, residual = np.zeros(1000), np.zeros(1000)
        for _ in range(steps):
            x = rate * curvature * (w - target) + residual
            step = round_trip(wc.codecs.ThreeLC(sparsity), x)
            residual, w = x - step, w - step
            if np.linalg.norm(w - target) > 100 * np.linalg.norm(target):
                break
        return float(np.linalg.norm(w - target) / np.linalg.norm(target))

    assert distance(1.0, 0.3, 1500) < 0.01
    assert distance(1.75, 0.3, 1500) > 100
    assert distance(1.75, 0.03, 1500) < 0.5


@pytest.mark.parametrize("scheme", ["all | raw-index | 3lc", "topk(0.1) | rice | 3lc(sparsity=1.5)"])
def test_scheme_string_round_trip(scheme: str) -> None:
    assert str(wc.Scheme.parse(scheme)) == scheme
