"""Tests of polyfit beyond round trips with the reference; some also test dexpfit."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import wirecodec as wc
from tests import oracles
from wirecodec.limits import UNLIMITED
from wirecodec.value.curve_fit import split_by_sign

FINITE = st.floats(-(2.0**120), 2.0**120, width=32)


PLAIN = wc.codecs.PolyFit()


def round_trip(values: Any, codec: Any = PLAIN) -> tuple[Any, Any]:
    """Return the section of sorted values, and the decoded values."""
    section = codec.encode(values, 0)
    return section, type(codec).decode(section, values.size, values.dtype, UNLIMITED)


def pieces_of(section: Any) -> list[tuple[int, int]]:
    """Return the length and degree of each piece."""
    n = int(section[:4].view("<u4")[0])
    return [
        ((head & 0xFFFFFF) + 1, head >> 24) for head in section[4 : 4 + 4 * n].copy().view("<u4").tolist()
    ]


def relative_error(values: Any, decoded: Any) -> float:
    v = values.astype(np.float64)
    return float(np.linalg.norm(decoded.astype(np.float64) - v) / np.linalg.norm(v))


def corner_cases(dtype: Any) -> list[list[float]]:
    """Return values that are difficult to fit."""
    info = ml_dtypes.finfo(dtype)
    most, least = float(info.max), float(info.smallest_subnormal)
    ramp = np.linspace(-1, 1, 400)
    return [
        *([x] for x in (0.0, -0.0, 1.0, most, -most, least)),
        *([-most, most], [least, 2 * least], [-1.0, 1.0], [0.0, most]),
        *([most] * 200, [-most] * 200, [0.0] * 200, [-0.0] * 100, [least] * 200),
        [-most] * 100 + [most] * 100,
        [-least] * 100 + [0.0] * 50 + [least] * 100,
        [0.0] * 199 + [most],
        [-most] + [0.0] * 199,
        [0.5 * most] * 150 + [most] * 150,
        [least] * 150 + [most] * 150,
        list(most * np.sort(ramp**9)),
        list(most * np.sort(np.sign(ramp))),
        list(least * np.arange(1, 300)),
        list(-np.geomspace(most / 2, max(least, most * 1e-300), 300)),
    ]


@pytest.mark.parametrize(
    "codec",
    [wc.codecs.PolyFit(), wc.codecs.PolyFit(8), wc.codecs.PolyFit(1, pieces=1), wc.codecs.DExpFit()],
    ids=repr,
)
def test_curve_fits_contract_on_corner_cases(codec: Any, dtype: np.dtype[Any]) -> None:
    for case in corner_cases(dtype):
        v = np.array(case).astype(dtype)
        _, decoded = round_trip(v, codec)
        assert np.isfinite(decoded.astype(np.float64)).all(), case[:3]
        exact = [Fraction(float(a)) for a in v]
        error = sum((a - Fraction(float(b))) ** 2 for a, b in zip(exact, decoded, strict=True))
        assert error <= sum(a * a for a in exact), case[:3]


@settings(max_examples=120)
@given(st.lists(FINITE, min_size=1, max_size=200), st.integers(0, 8), st.sampled_from([None, 1, 5]))
def test_curve_fits_contract(values: list[float], degree: int, pieces: int | None) -> None:
    v = np.sort(np.array(values, np.float32))
    for codec in (wc.codecs.PolyFit(degree, pieces), wc.codecs.DExpFit()):
        _, decoded = round_trip(v, codec)
        exact = [Fraction(float(a)) for a in v]
        error = sum((a - Fraction(float(b))) ** 2 for a, b in zip(exact, decoded, strict=True))
        assert error <= sum(a * a for a in exact)


@pytest.mark.sampled
@pytest.mark.parametrize("density", [0.001, 0.01, 0.1])
@pytest.mark.parametrize("degree", [1, 3, 5])
def test_error_is_at_most_the_papers(gradient: Any, density: float, degree: int) -> None:
    """The comparison splits pieces in turn and fits the same number of them by NumPy."""
    x = wc.selectors.TopK(density).select(gradient)
    v = np.sort(gradient[x.indices])
    section, decoded = round_trip(v, wc.codecs.PolyFit(degree))
    pieces = pieces_of(section)
    if pieces:
        fitted = oracles.chord_fit(v, split_by_sign(v), len(pieces), degree)
        assert relative_error(v, decoded) <= relative_error(v, fitted) * (1.001 if degree == 5 else 1.05)
        assert relative_error(v, decoded) <= 0.01 or degree < 5


@pytest.mark.parametrize("degree", range(9))
def test_a_piece_is_the_least_squares_polynomial(rng: np.random.Generator, degree: int) -> None:
    for n in (60, 64, 65, 1000, 50_000):
        v = np.sort(rng.exponential(size=n))
        section, decoded = round_trip(v, wc.codecs.PolyFit(degree, pieces=1))
        assert pieces_of(section) == [(n, degree)]
        fitted = oracles.chord_fit(v, np.array([0, n]), 1, degree)
        assert np.abs(decoded - fitted).max() < 1e-10


def test_constants_approach_the_values(gradient: Any) -> None:
    """More constants have less error; the derived number of them has about the error of the argument."""
    v = np.sort(gradient[wc.selectors.TopK(0.01).select(gradient).indices])
    errors = [relative_error(v, round_trip(v, wc.codecs.PolyFit(0, pieces=n))[1]) for n in (3, 10, 30, 100)]
    assert errors == sorted(errors, reverse=True)
    assert errors[-1] < 0.05
    assert relative_error(v, round_trip(v, wc.codecs.PolyFit(0, error=0.05))[1]) < 0.1


@settings(max_examples=100)
@given(st.integers(1, 3000), st.integers(1, 8), st.integers(0, 2**32), st.sampled_from([None, 1, 4, 60]))
def test_pieces_follow_the_spec_page(r: int, degree: int, seed: int, most: int | None) -> None:
    rng = np.random.default_rng(seed)
    v = np.sort(rng.laplace(size=r) * (rng.random(r) < rng.choice([0.3, 0.9, 1]))).astype(np.float32)
    section, _ = round_trip(v, wc.codecs.PolyFit(degree, most))
    assert section.size <= 4 + v.nbytes
    pieces = pieces_of(section)
    if not pieces:
        return
    cuts = [0, *itertools.accumulate(n for n, _ in pieces)]
    parts = split_by_sign(v).tolist()
    assert set(parts) <= set(cuts)
    assert len(pieces) <= max(len(parts) - 1, expected_pieces(v, parts, 0.01) if most is None else most)
    for (n, g), a, b in zip(pieces, cuts, cuts[1:], strict=False):
        assert n > degree or (a in parts and b in parts)
        assert g == (0 if v[a] == v[b - 1] else min(degree, n - 1))


def expected_pieces(v: Any, parts: list[int], error: float) -> int:
    """Compute Σ⌈√(2M / τ)⌉ over the parts."""
    w = v.astype(np.float64)
    total = 0
    for a, b in itertools.pairwise(parts):
        y = w[a:b]
        turn = abs((y[1] - y[0]) - (y[-1] - y[-2])) if y.size > 2 else 0.0
        total += (
            max(1, math.ceil(math.sqrt(2 * turn / (error * np.sqrt((w**2).mean()))) - 1e-9)) if turn else 1
        )
    return total + 1  # rounding can raise a whole number by one


def test_smaller_error_parameters_give_larger_sections(rng: np.random.Generator) -> None:
    v = np.sort(rng.laplace(size=20_000)).astype(np.float32)
    found = [round_trip(v, wc.codecs.PolyFit(error=e)) for e in (0.1, 0.01, 0.001, 0.0001)]
    assert np.all(np.diff([section.size for section, _ in found]) > 0)
    assert np.all(np.diff([relative_error(v, decoded) for _, decoded in found]) < 0)
    assert relative_error(v, found[-1][1]) < 2e-3


def test_fit_is_invariant_to_powers_of_two(rng: np.random.Generator) -> None:
    v = np.sort(rng.laplace(size=3000)).astype(np.float32)
    plain = round_trip(v)
    for power in (-60, -20, 20, 60):
        section, decoded = round_trip(np.ldexp(v, power))
        assert pieces_of(section) == pieces_of(plain[0])
        assert np.array_equal(decoded, np.ldexp(plain[1], power))


def test_float64_beyond_float32(rng: np.random.Generator) -> None:
    v = np.sort(rng.laplace(size=3000))
    plain = round_trip(v)
    for power in (-1000, -500, 500, 1015):
        assert (
            relative_error(np.ldexp(v, power) * 2.0**-power, round_trip(np.ldexp(v, power))[1] * 2.0**-power)
            < 0.011
        )
    assert relative_error(v, plain[1]) < 0.01


def test_equal_values_are_preserved(dtype: np.dtype[Any]) -> None:
    v = np.repeat(np.array([-3.0, 0.0, 0.1]), 100).astype(dtype)
    section, decoded = round_trip(v)
    assert np.array_equal(decoded, v)
    assert pieces_of(section) == [(100, 0)] * 3


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ({"degree": -1}, "degree is -1"),
        ({"degree": 9}, "degree is 9"),
        ({"degree": 2.5}, "degree is 2.5"),
        ({"pieces": 0}, "pieces is 0"),
        ({"pieces": 2**24 + 1}, "pieces is"),
        ({"error": 0.0}, "error is 0.0"),
        ({"error": math.nan}, "error is nan"),
        ({"error": 2}, "error is 2.0"),
    ],
)
def test_parameters_out_of_range(given: dict[str, Any], text: str) -> None:
    with pytest.raises(wc.EncodeError, match=text):
        wc.codecs.PolyFit(**given)


@pytest.mark.parametrize("value", ["polyfit", "polyfit(degree=3)", "polyfit(pieces=8)", "dexpfit"])
def test_scheme_string_round_trip(value: str) -> None:
    scheme = f"topk(0.01) | rice | {value}"
    assert str(wc.Scheme.parse(scheme)) == scheme


@pytest.mark.nightly
@pytest.mark.parametrize("value", ["polyfit", "dexpfit"])
def test_error_feedback_converges(rng: np.random.Generator, value: str) -> None:
    """The distance to a badly scaled quadratic's minimum falls below 0.1 %."""
    curvature, target = 10.0 ** rng.uniform(-1, 0, 400), rng.normal(size=400)
    c = wc.Compressor(f"topk(0.25) | rice | {value}")
    w = np.zeros(400)
    for _ in range(1500):
        w -= 0.3 * c.decompress(c.compress({"w": curvature * (w - target)}))["w"].to_dense()
    assert np.linalg.norm(w - target) < 1e-3 * np.linalg.norm(target)
