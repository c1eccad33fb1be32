"""Tests of terngrad: unbiasedness without clipping, section sizes, effect of clipping."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import wirecodec as wc
from formats.reference.prng import draw16
from tests import oracles
from tests.wirecodec.value.sections import round_trip
from wirecodec.prng import mix

FINITE = st.floats(-(2.0**120), 2.0**120, width=32)


def expected_values(values: Any, clip: float | None, stream: int) -> Any:
    """Compute the decoded values as the spec page does, in float32 scalars and Python integers."""
    x = [np.float32(v) for v in values]
    scale = max(abs(v) for v in x)
    if clip is not None:
        squares = oracles.lane_sum([float(v) ** 2 for v in x], 64)
        scale = min(scale, np.float32(clip * math.sqrt(squares / len(x))))
    if scale < np.float32(2.0**-100):
        return [0.0] * len(x)
    inverse = np.float32(65536) / scale
    out = []
    for p, v in enumerate(x):
        t = round(float(min(abs(v), scale) * inverse))
        out.append(math.copysign(scale, v) if t + draw16(stream, p) >= 65536 else 0.0)
    return out


@pytest.mark.parametrize("clip", [None, 2.5, 0.6])
def test_values_follow_the_spec_page(
    rng: np.random.Generator, dtype: np.dtype[Any], clip: float | None
) -> None:
    for r in (1, 4, 5, 6, 63, 64, 65, 319, 320, 321, 511, 700):
        v = (rng.standard_t(1.5, r).clip(-1000, 1000) * (rng.random(r) > 0.1)).astype(dtype)
        expected = [oracles.round_to(x, dtype) for x in expected_values(v, clip, 7 * r)]
        assert round_trip(wc.codecs.TernGrad(clip), v, 7 * r).astype(float).tolist() == expected


SEEDS = 4000


def test_terngrad_is_unbiased(gradient: Any) -> None:
    """Means over seeds are near the values.

    Each is within 5 of its standard deviations. Their sum, weighted by signs, is within 4.
    """
    x = gradient[np.argsort(-np.abs(gradient))[:400]][np.random.default_rng(1).permutation(400)]
    total = np.zeros(x.size)
    for seed in range(SEEDS):
        total += round_trip(wc.codecs.TernGrad(), x, mix(seed, 0, 0))
    s, magnitudes = float(np.abs(x).max()), np.abs(x).astype(float)
    deviations = np.sqrt(magnitudes * (s - magnitudes) / SEEDS)
    bias = total / SEEDS - x
    slack = s * 2.0**-17
    assert np.all(np.abs(bias) <= 5 * deviations + slack)
    assert abs((bias * np.sign(x)).sum()) <= 4 * math.sqrt((deviations**2).sum()) + x.size * slack


def test_clipping_bias_is_detected(gradient: Any) -> None:
    """The bias of clipping is far outside the accepted range."""
    x = gradient[np.argsort(-np.abs(gradient))[:400]]
    total = np.zeros(x.size)
    for seed in range(SEEDS):
        total += round_trip(wc.codecs.TernGrad(clip=1.5), x, mix(seed, 0, 0))
    s, magnitudes = float(np.abs(x).max()), np.abs(x).astype(float)
    deviations = np.sqrt(magnitudes * (s - magnitudes) / SEEDS)
    assert abs(((total / SEEDS - x) * np.sign(x)).sum()) > 8 * math.sqrt((deviations**2).sum())


def test_error_follows_the_spec_page(rng: np.random.Generator) -> None:
    x = rng.laplace(size=20_000).astype(np.float32)
    wide = x.astype(float)
    expected = np.abs(wide).max() * np.abs(wide).sum() / (wide**2).sum() - 1
    found = (
        np.mean([((round_trip(wc.codecs.TernGrad(), x, n) - wide) ** 2).sum() for n in range(30)])
        / (wide**2).sum()
    )
    assert found == pytest.approx(expected, rel=0.02)


def test_draws_of_different_values_are_uncorrelated(rng: np.random.Generator) -> None:
    """The pairs are 1 to 512 values apart."""
    x = np.full(100_000, 0.5, np.float32)
    x[0] = 1.0
    sent = (round_trip(wc.codecs.TernGrad(), x, 99) != 0).astype(float)[1:] - 0.5
    for apart in (1, 16, 32, 64, 320, 512):
        assert abs((sent[:-apart] * sent[apart:]).mean()) < 0.25 * 5 / math.sqrt(sent.size)


@settings(max_examples=100)
@given(st.lists(FINITE, min_size=1, max_size=700), st.sampled_from([None, 1e-30, 0.5, 2.5, 1e30]))
def test_values_are_signs_of_one_magnitude(values: list[float], clip: float | None) -> None:
    v = np.array(values, np.float32)
    got = round_trip(wc.codecs.TernGrad(clip), v, 3)
    magnitudes = set(np.abs(got[got != 0]).tolist())
    assert len(magnitudes) <= 1
    assert max(magnitudes, default=0) <= np.abs(v).max()
    assert (np.sign(got) * np.sign(v) >= 0).all()


def test_largest_magnitudes_are_always_sent(rng: np.random.Generator) -> None:
    for r in (1, 2, 320, 1000):
        v = np.where(rng.random(r) < 0.5, -0.3, 0.3).astype(np.float32)
        for stream in range(20):
            assert np.array_equal(round_trip(wc.codecs.TernGrad(), v, stream), v)
            assert np.array_equal(round_trip(wc.codecs.TernGrad(clip=1.25), v, stream), v)


def test_clipping_bounds_the_scale(rng: np.random.Generator) -> None:
    x = rng.normal(size=100_000).astype(np.float32)
    x[5] = 1000.0
    root = math.sqrt((x.astype(float) ** 2).mean())
    assert np.abs(round_trip(wc.codecs.TernGrad(), x)).max() == 1000.0
    assert np.abs(round_trip(wc.codecs.TernGrad(clip=2.5), x)).max() == np.float32(2.5 * root)


def test_section_sizes() -> None:
    for r in (1, 5, 6, 320, 321, 1000):
        for dtype in (np.float16, np.float32, np.float64):
            assert len(wc.codecs.TernGrad().encode(np.ones(r, dtype), 0)) == 4 + math.ceil(r / 5)


def test_float64_beyond_float32_raises() -> None:
    with pytest.raises(wc.EncodeError, match="too large for the float32 of terngrad") as caught:
        wc.encode(np.array([0.0, 1.0, 1e39]), "nonzero | rice | terngrad")
    assert caught.value.position == 2


@pytest.mark.parametrize("clip", ["0", "-1", "nan", "True"])
def test_parameter_out_of_range(clip: str) -> None:
    with pytest.raises(wc.EncodeError, match="terngrad: clip"):
        wc.Scheme.parse(f"all | rice | terngrad(clip={clip})")


@pytest.mark.parametrize("value", ["terngrad", "terngrad(2.5)"])
def test_scheme_string_round_trip(value: str) -> None:
    assert str(wc.Scheme.parse(f"all | raw-index | {value}")) == f"all | raw-index | {value}"
