"""polyfit: what it promises beyond a round trip with the reference."""

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
from wirecodec.value.curve_fit import parts_of

FINITE = st.floats(-(2.0**120), 2.0**120, width=32)


PLAIN = wc.PolyFit()


def sent(values: Any, codec: Any = PLAIN) -> tuple[Any, Any]:
    """The section of sorted values, and what it decodes to."""
    section = codec.encode(values, 0)
    return section, type(codec).decode(section, values.size, values.dtype, UNLIMITED)


def pieces_of(section: Any) -> list[tuple[int, int]]:
    """(length, degree) of each."""
    n = int(section[:4].view("<u4")[0])
    return [
        ((head & 0xFFFFFF) + 1, head >> 24) for head in section[4 : 4 + 4 * n].copy().view("<u4").tolist()
    ]


def relative(values: Any, decoded: Any) -> float:
    v = values.astype(np.float64)
    return float(np.linalg.norm(decoded.astype(np.float64) - v) / np.linalg.norm(v))


def corners(dtype: Any) -> list[list[float]]:
    """Values of every kind that a fit could fail on."""
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
    "codec", [wc.PolyFit(), wc.PolyFit(8), wc.PolyFit(1, pieces=1), wc.DExpFit()], ids=repr
)
def test_it_contracts_where_a_fit_could_fail(codec: Any, dtype: np.dtype[Any]) -> None:
    for case in corners(dtype):
        v = np.array(case).astype(dtype)
        _, decoded = sent(v, codec)
        assert np.isfinite(decoded.astype(np.float64)).all(), case[:3]
        exact = [Fraction(float(a)) for a in v]
        error = sum((a - Fraction(float(b))) ** 2 for a, b in zip(exact, decoded, strict=True))
        assert error <= sum(a * a for a in exact), case[:3]


@settings(max_examples=300, deadline=None)
@given(st.lists(FINITE, min_size=1, max_size=200), st.integers(1, 8), st.sampled_from([None, 1, 5]))
def test_it_contracts(values: list[float], degree: int, pieces: int | None) -> None:
    v = np.sort(np.array(values, np.float32))
    for codec in (wc.PolyFit(degree, pieces), wc.DExpFit()):
        _, decoded = sent(v, codec)
        exact = [Fraction(float(a)) for a in v]
        error = sum((a - Fraction(float(b))) ** 2 for a, b in zip(exact, decoded, strict=True))
        assert error <= sum(a * a for a in exact)


@pytest.mark.sampled
@pytest.mark.parametrize("density", [0.001, 0.01, 0.1])
@pytest.mark.parametrize("degree", [1, 3, 5])
def test_it_is_no_worse_than_the_paper(gradient: Any, density: float, degree: int) -> None:
    """Of the same number of pieces, each split in turn and fitted by NumPy."""
    x = wc.TopK(density).select(gradient)
    v = np.sort(gradient[x.indices])
    section, decoded = sent(v, wc.PolyFit(degree))
    pieces = pieces_of(section)
    if pieces:
        fitted = oracles.chord_fit(v, parts_of(v), len(pieces), degree)
        assert relative(v, decoded) <= relative(v, fitted) * (1.001 if degree == 5 else 1.05)
        assert relative(v, decoded) <= 0.01 or degree < 5


@pytest.mark.parametrize("degree", range(1, 9))
def test_a_piece_is_the_polynomial_of_least_squares(rng: np.random.Generator, degree: int) -> None:
    for n in (60, 64, 65, 1000, 50_000):
        v = np.sort(rng.exponential(size=n))
        section, decoded = sent(v, wc.PolyFit(degree, pieces=1))
        assert pieces_of(section) == [(n, degree)]
        fitted = oracles.chord_fit(v, np.array([0, n]), 1, degree)
        assert np.abs(decoded - fitted).max() < 1e-10


@settings(max_examples=200, deadline=None)
@given(st.integers(1, 3000), st.integers(1, 8), st.integers(0, 2**32), st.sampled_from([None, 1, 4, 60]))
def test_pieces_are_as_the_page_says(r: int, degree: int, seed: int, most: int | None) -> None:
    rng = np.random.default_rng(seed)
    v = np.sort(rng.laplace(size=r) * (rng.random(r) < rng.choice([0.3, 0.9, 1]))).astype(np.float32)
    section, _ = sent(v, wc.PolyFit(degree, most))
    assert section.size <= 4 + v.nbytes
    pieces = pieces_of(section)
    if not pieces:
        return
    cuts = [0, *itertools.accumulate(n for n, _ in pieces)]
    parts = parts_of(v).tolist()
    assert set(parts) <= set(cuts)
    assert len(pieces) <= max(len(parts) - 1, asked(v, parts, 0.01) if most is None else most)
    for (n, g), a, b in zip(pieces, cuts, cuts[1:], strict=False):
        assert n > degree or (a in parts and b in parts)
        assert g == (0 if v[a] == v[b - 1] else min(degree, n - 1))


def asked(v: Any, parts: list[int], error: float) -> int:
    """The sum over the parts of ⌈√(2M / τ)⌉."""
    w = v.astype(np.float64)
    total = 0
    for a, b in itertools.pairwise(parts):
        y = w[a:b]
        turn = abs((y[1] - y[0]) - (y[-1] - y[-2])) if y.size > 2 else 0.0
        total += (
            max(1, math.ceil(math.sqrt(2 * turn / (error * np.sqrt((w**2).mean()))) - 1e-9)) if turn else 1
        )
    return total + 1  # what is at a whole number may round up


def test_more_pieces_and_smaller_errors_cost_more_and_err_less(rng: np.random.Generator) -> None:
    v = np.sort(rng.laplace(size=20_000)).astype(np.float32)
    found = [sent(v, wc.PolyFit(error=e)) for e in (0.1, 0.01, 0.001, 0.0001)]
    assert np.all(np.diff([section.size for section, _ in found]) > 0)
    assert np.all(np.diff([relative(v, decoded) for _, decoded in found]) < 0)
    assert relative(v, found[-1][1]) < 2e-3


def test_it_does_not_depend_on_the_unit(rng: np.random.Generator) -> None:
    v = np.sort(rng.laplace(size=3000)).astype(np.float32)
    plain = sent(v)
    for power in (-60, -20, 20, 60):
        section, decoded = sent(np.ldexp(v, power))
        assert pieces_of(section) == pieces_of(plain[0])
        assert np.array_equal(decoded, np.ldexp(plain[1], power))


def test_float64_beyond_float32(rng: np.random.Generator) -> None:
    v = np.sort(rng.laplace(size=3000))
    plain = sent(v)
    for power in (-1000, -500, 500, 1015):
        assert relative(np.ldexp(v, power) * 2.0**-power, sent(np.ldexp(v, power))[1] * 2.0**-power) < 0.011
    assert relative(v, plain[1]) < 0.01


def test_equal_values_and_zeros_come_back_exactly(dtype: np.dtype[Any]) -> None:
    v = np.repeat(np.array([-3.0, 0.0, 0.1]), 100).astype(dtype)
    section, decoded = sent(v)
    assert np.array_equal(decoded, v)
    assert pieces_of(section) == [(100, 0)] * 3


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ({"degree": 0}, "degree is 0"),
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
        wc.PolyFit(**given)


@pytest.mark.parametrize("value", ["polyfit", "polyfit(degree=3)", "polyfit(pieces=8)", "dexpfit"])
def test_schemes_name_it(value: str) -> None:
    scheme = f"topk(0.01) | rice | {value}"
    assert str(wc.Scheme.parse(scheme)) == scheme


@pytest.mark.parametrize("value", ["polyfit", "dexpfit"])
def test_error_feedback_converges_with_it(rng: np.random.Generator, value: str) -> None:
    """A badly scaled quadratic: the distance falls below any given one."""
    curvature, target = 10.0 ** rng.uniform(-1, 0, 400), rng.normal(size=400)
    c = wc.Compressor(f"topk(0.25) | rice | {value}")
    w = np.zeros(400)
    for _ in range(1500):
        w -= 0.3 * c.decompress(c.compress({"w": curvature * (w - target)}))["w"].to_dense()
    assert np.linalg.norm(w - target) < 1e-3 * np.linalg.norm(target)
