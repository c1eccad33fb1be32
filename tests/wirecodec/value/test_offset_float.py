"""Tests of offset-float: the paper's figure, nearest rounding, unbiasedness, choice of the mantissa."""

from __future__ import annotations

import struct
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import wirecodec as wc
from tests.wirecodec.value.sections import round_trip
from wirecodec.value.bit_packing import unpack

FINITE = st.floats(-(2.0**120), 2.0**120, width=32)
SMALL = st.floats(-4, 4, width=32)


def representable_numbers(codec: wc.codecs.OffsetFloat, values: Any) -> list[Fraction]:
    """Compute all numbers that have a code, by the spec page's formula."""
    _, m, _, positive, negative, base = struct.unpack("<BBHHHI", bytes(codec.encode(values, 0)[:12]))
    plus = (np.arange(base, base + positive) << (23 - m)).astype(np.uint32).view(np.float32)
    minus = -(np.arange(base, base + negative) << (23 - m)).astype(np.uint32).view(np.float32)
    return [Fraction(0), *map(Fraction, plus.tolist()), *map(Fraction, minus.tolist())]


def test_figure_8_of_the_paper() -> None:
    codec = wc.codecs.OffsetFloat(8, mantissa=3, min=-2, max=2, eps=0.125)
    section = codec.encode(np.array([0.256], np.float32), 0)
    assert struct.unpack("<I", section[8:12].tobytes())[0] == 0b001111100000
    assert unpack(section[12:], 1, 8, np.uint8)[0] == 0b00001001
    assert round_trip(codec, np.array([0.256], np.float32))[0] == 0.25
    x = np.array([0.256, -0.256, 2, -2, 3, -np.pi, 0.125, -0.125, 0.0626, 0.0624, 0, -0.0], np.float32)
    expected = [0.25, -0.25, 2, -2, 2, -2, 0.125, -0.125, 0.125, 0, 0, 0]
    assert round_trip(codec, x).tolist() == expected
    assert not np.signbit(round_trip(codec, x)[-3:]).any()


@settings(max_examples=150)
@given(
    st.lists(st.one_of(FINITE, SMALL), min_size=1, max_size=60),
    st.integers(2, 9),
    st.one_of(st.none(), st.integers(0, 23)),
    st.sampled_from([None, None, 0.0, 1.7]),
    st.sampled_from([None, None, 0.25]),
)
def test_values_round_to_the_nearest_number(
    values: list[float], bits: int, mantissa: int | None, bound: float | None, eps: float | None
) -> None:
    codec = wc.codecs.OffsetFloat(bits, mantissa, None if bound is None else -bound, bound, eps)
    x = np.array(values, np.float32)
    numbers = representable_numbers(codec, x)
    assert len(numbers) <= 2**bits
    for value, found in zip(values, round_trip(codec, x).tolist(), strict=True):
        ours = [n for n in numbers if n * Fraction(value) >= 0]  # a value keeps its sign or becomes 0
        assert abs(Fraction(value) - Fraction(found)) == min(abs(Fraction(value) - n) for n in ours)


@settings(max_examples=100)
@given(st.lists(FINITE, min_size=1, max_size=60), st.integers(2, 9), st.integers(0, 23))
def test_eps_is_the_smallest_for_which_the_codes_suffice(
    values: list[float], bits: int, mantissa: int
) -> None:
    x = np.array(values, np.float32)
    section = bytes(wc.codecs.OffsetFloat(bits, mantissa).encode(x, 0)[:12])
    _, _, _, positive, negative, base = struct.unpack("<BBHHHI", section)
    cut = 23 - mantissa
    largest = 0x7F7FFFFF >> cut
    ends = [max([abs(v) for v in values if v * sign > 0], default=0) for sign in (1, -1)]
    tops = [(int(np.float32(end).view(np.uint32)) + (1 << cut) // 2) >> cut for end in ends]

    def codes(base: int) -> list[int]:
        return [max(1, min(t, largest) - base + 1) if end else 0 for t, end in zip(tops, ends, strict=True)]

    assert codes(base) == [positive, negative]
    assert positive + negative < 2**bits
    assert base == 1 or sum(codes(base - 1)) >= 2**bits


def test_mantissa_has_the_smallest_error(rng: np.random.Generator) -> None:
    for x in (
        rng.laplace(size=500),
        rng.standard_t(2, 500),
        rng.uniform(1, 1.1, 500),
        np.exp(rng.normal(size=500) * 5),
    ):
        v = x.astype(np.float32)
        for bits in (4, 8, 12):
            errors = [
                ((round_trip(wc.codecs.OffsetFloat(bits, m), v) - v).astype(float) ** 2).sum()
                for m in range(24)
            ]
            found = wc.codecs.OffsetFloat(bits).encode(v, 0)[1]
            assert errors[found] <= min(errors) * (1 + 1e-12)


def test_stochastic_rounding_is_unbiased(rng: np.random.Generator) -> None:
    """The values are below eps, between codes, and at powers of two."""
    for mantissa, scale in ((None, 1.0), (0, 1.0), (2, 1e-3), (9, 1.0), (16, 1.0)):
        codec = wc.codecs.OffsetFloat(6, mantissa, rounding="stochastic")
        points = (rng.laplace(size=40) * scale).astype(np.float32)
        x = np.repeat(points, 4096)
        mean, spread = np.zeros(40), np.zeros(40)
        for seed in range(16):
            found = round_trip(codec, x, seed * 7919).reshape(40, -1).astype(float)
            mean += found.mean(1) / 16
            spread += found.var(1) / 16
        error = np.abs(mean - points)
        steps = np.sqrt(spread) + np.abs(points) * 1e-6
        assert (error <= 5 * steps / np.sqrt(16 * 4096) + np.abs(points) * 2**-15).all()


@settings(max_examples=100)
@given(st.lists(FINITE, min_size=1, max_size=100), st.integers(2, 12))
def test_nearest_rounding_contracts(values: list[float], bits: int) -> None:
    x = np.array(values, np.float32)
    exact = [
        (Fraction(float(a)), Fraction(float(b)))
        for a, b in zip(x, round_trip(wc.codecs.OffsetFloat(bits), x), strict=True)
    ]
    assert sum((a - b) ** 2 for a, b in exact) <= sum(a * a for a, _ in exact)


def test_enough_codes_are_lossless() -> None:
    x = np.array([0.5, 0.75, -1.0, 1.25, 0.0, -0.5], np.float32)
    assert np.array_equal(round_trip(wc.codecs.OffsetFloat(8), x), x)


def test_section_sizes() -> None:
    for r in (1, 100, 512, 1000):
        for bits in (2, 5, 8, 16):
            size = len(wc.codecs.OffsetFloat(bits).encode(np.ones(r, np.float32), 0))
            assert size == 12 + 64 * bits * (r // 512) + 4 * -(-(r % 512) * bits // 32)


@pytest.mark.parametrize("rounding", ["nearest", "stochastic"])
def test_thread_count_does_not_change_bytes(rounding: str, rng: np.random.Generator) -> None:
    """The 600,001 values are split into several work units."""
    import numba

    x = rng.laplace(size=600_001).astype(np.float32)
    codec = wc.codecs.OffsetFloat(7, 3, -9.0, 9.0, 0.01, rounding)
    before = numba.get_num_threads()
    found = []
    try:
        for count in (1, before):
            numba.set_num_threads(count)
            found.append((bytes(codec.encode(x, 3)), round_trip(codec, x, 3).tobytes()))
    finally:
        numba.set_num_threads(before)
    assert found[0] == found[1]


@pytest.mark.parametrize(
    "given",
    [
        {"bits": 1},
        {"bits": 17},
        {"bits": 4.0},
        {"mantissa": -1},
        {"mantissa": 24},
        {"min": 1.0},
        {"max": -1.0},
        {"max": np.inf},
        {"max": 1e39},
        {"min": np.nan},
        {"eps": 0},
        {"eps": -1.0},
        {"eps": 1e-60},
        {"rounding": "up"},
    ],
)
def test_parameters_out_of_range(given: dict[str, Any]) -> None:
    with pytest.raises(wc.EncodeError, match="offset-float: "):
        wc.codecs.OffsetFloat(**given)


@pytest.mark.parametrize(
    "scheme",
    [
        "topk(0.1) | rice | offset-float",
        "all | raw-index | offset-float(mantissa=3, min=-2.0, max=2.0, eps=0.125, rounding=stochastic)",
    ],
)
def test_scheme_string_round_trip(scheme: str) -> None:
    assert str(wc.Scheme.parse(scheme)) == scheme


@pytest.mark.parametrize(
    ("limits", "value"), [({"max": 1.0}, "1.5, and max is 1"), ({"min": -1.0}, "-2, and min is -1")]
)
def test_values_out_of_the_range_can_raise(limits: dict[str, float], value: str) -> None:
    x = np.array([0.5, 1.5, -2.0, 1.0], np.float32)
    assert wc.codecs.OffsetFloat(8, **limits).encode(x, 0).size
    with pytest.raises(wc.EncodeError, match=value):
        wc.codecs.OffsetFloat(8, **limits, overflow="raise").encode(x, 0)
    inside = np.clip(x, -1, 1)
    clamped = wc.codecs.OffsetFloat(8, min=-1.0, max=1.0)
    checked = wc.codecs.OffsetFloat(8, min=-1.0, max=1.0, overflow="raise")
    assert checked.encode(inside, 0).tobytes() == clamped.encode(inside, 0).tobytes()


def test_float64_beyond_float32_raises() -> None:
    with pytest.raises(wc.EncodeError, match="element 2: 1e"):
        wc.encode(np.array([1, 0, 1e39]), "all | raw-index | offset-float")
