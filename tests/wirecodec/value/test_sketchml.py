"""Tests of sketchml beyond round trips with the reference."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import wirecodec as wc
from tests.wirecodec.value.sections import encode_section, round_trip

FINITE = st.floats(-(2.0**120), 2.0**120, width=32)
BUCKETS = st.one_of(st.integers(2, 8), st.integers(2, 256))


def group_by_mean(values: Any, decoded: Any) -> dict[int, list[float]]:
    """Group values by the bits of their decoded mean."""
    found: dict[int, list[float]] = {}
    for value, bits in zip(values.tolist(), decoded.view(np.uint32).tolist(), strict=True):
        found.setdefault(bits, []).append(value)
    return found


@settings(max_examples=120)
@given(st.lists(FINITE, min_size=1, max_size=300), BUCKETS)
def test_buckets_are_ranges_of_one_sign_decoded_as_means(values: list[float], buckets: int) -> None:
    v = np.array(values, np.float32)
    decoded = round_trip(wc.codecs.SketchML(buckets), v)
    assert np.array_equal(np.signbit(decoded), np.signbit(v))
    order = np.lexsort((v, ~np.signbit(v)))
    assert (np.diff(decoded[order]) >= 0).all()  # ranges, in order
    found = group_by_mean(v, decoded)
    assert len(found) <= buckets
    for bits, members in found.items():
        mean = float(np.array([bits], np.uint32).view(np.float32)[0])
        exact = sum(map(Fraction, members), Fraction(0)) / len(members)
        assert abs(Fraction(mean) - exact) <= Fraction(float(np.spacing(np.float32(abs(mean)))))
        assert min(members) <= mean <= max(members)


@settings(max_examples=120)
@given(st.lists(FINITE, min_size=1, max_size=200), BUCKETS)
def test_sketchml_contracts(values: list[float], buckets: int) -> None:
    """‖v - Q(v)‖² ≤ (1 - 1/m) ‖v‖², where m is the size of the largest bucket."""
    v = np.array(values, np.float32)
    decoded = round_trip(wc.codecs.SketchML(buckets), v)
    largest = max(map(len, group_by_mean(v, decoded).values()))
    pairs = [(Fraction(float(a)), Fraction(float(b))) for a, b in zip(v, decoded, strict=True)]
    error = sum(((a - b) ** 2 for a, b in pairs), Fraction(0))
    ulps = sum((Fraction(float(np.spacing(np.float32(abs(b))))) ** 2 for _, b in pairs), Fraction(0))
    assert error <= (1 - Fraction(1, largest)) * sum((a * a for a, _ in pairs), Fraction(0)) + ulps


@pytest.mark.parametrize("buckets", [2, 3, 16, 64, 256])
def test_buckets_have_about_equal_counts(rng: np.random.Generator, buckets: int) -> None:
    """Counts differ by at most the contents of the two cells at a bucket's ends, and one value."""
    r = 50_000
    x = rng.laplace(size=r)
    x += np.sign(x) * np.log(100)
    v = x.astype(np.float32)
    negative = int((v < 0).sum())
    negative_buckets = (2 * buckets * negative + r) // (2 * r)
    means, sizes = np.unique(round_trip(wc.codecs.SketchML(buckets), v), return_counts=True)
    assert (means.size, int((means < 0).sum())) == (buckets, negative_buckets)
    for of_sign, expected in (
        (sizes[:negative_buckets], negative / negative_buckets),
        (sizes[negative_buckets:], (r - negative) / (buckets - negative_buckets)),
    ):
        assert np.abs(of_sign - expected).max() <= 0.01 * expected + 30


def test_buckets_per_sign_follow_the_counts(rng: np.random.Generator) -> None:
    magnitudes = rng.uniform(1, 2, 1000).astype(np.float32)
    for negative, negative_buckets in ((0, 0), (1, 1), (8, 1), (24, 2), (500, 32), (999, 63), (1000, 64)):
        v = np.where(np.arange(1000) < negative, -magnitudes, magnitudes)
        means = np.unique(round_trip(wc.codecs.SketchML(64), v))
        assert (means.size, (means < 0).sum()) == (64, negative_buckets)


def test_frequent_values_are_preserved(rng: np.random.Generator) -> None:
    v = rng.normal(size=4000).astype(np.float32)
    v[rng.permutation(4000)[:1000]] = 0
    v[rng.permutation(4000)[:900]] = np.float32(0.3)
    decoded = round_trip(wc.codecs.SketchML(16), v)
    assert np.array_equal(decoded[v == 0], v[v == 0])
    assert np.array_equal(decoded[v == np.float32(0.3)], v[v == np.float32(0.3)])


def test_fewer_values_than_buckets_are_lossless(rng: np.random.Generator, dtype: np.dtype[Any]) -> None:
    v = rng.normal(size=30).astype(dtype)
    assert np.array_equal(round_trip(wc.codecs.SketchML(256), v), v.astype(np.float32).astype(dtype))


def test_error_is_near_that_of_exact_quantiles(rng: np.random.Generator, gradient: Any) -> None:
    """The error is within 0.2 % of that of quantiles of the sorted values."""
    for x in (rng.normal(size=40_000).astype(np.float32), gradient):
        for buckets in (16, 256):
            negative = np.signbit(x)
            negative_buckets = (2 * buckets * int(negative.sum()) + x.size) // (2 * x.size)
            best = np.empty(x.size)
            for selected, b in ((negative, negative_buckets), (~negative, buckets - negative_buckets)):
                v = x[selected].astype(np.float64)
                ranks = np.empty(v.size, np.int64)
                ranks[np.argsort(np.abs(v), kind="stable")] = b * (2 * np.arange(v.size) + 1) // (2 * v.size)
                counts = np.bincount(ranks, minlength=b)
                best[selected] = (np.bincount(ranks, v, minlength=b) / np.maximum(counts, 1))[ranks]
            expected = np.linalg.norm(x - best)
            assert (
                abs(
                    np.linalg.norm(x - round_trip(wc.codecs.SketchML(buckets), x).astype(np.float64))
                    - expected
                )
                < 2e-3 * expected
            )


def test_section_sizes(rng: np.random.Generator) -> None:
    x = rng.normal(size=5120).astype(np.float32)
    for buckets in (2, 4, 16, 64, 256):
        section = encode_section(wc.codecs.SketchML(buckets), x)
        assert section[0] == 0
        assert section.size == 4 + 4 * buckets + 5120 * (buckets.bit_length() - 1) // 8
    assert encode_section(wc.codecs.SketchML(64), np.full(100_000, -2.5, np.float32)).size == 8


def test_uneven_buckets_are_huffman_coded(rng: np.random.Generator) -> None:
    """The size is within 0.3 bits per value of the entropy, and below that of packed codes."""
    x = np.where(rng.random(20_000) < 0.6, 0, rng.normal(size=20_000)).astype(np.float32)
    section = encode_section(wc.codecs.SketchML(64), x)
    _, counts = np.unique(round_trip(wc.codecs.SketchML(64), x), return_counts=True)
    entropy = -float((counts / x.size * np.log2(counts / x.size)).sum())
    bits = 8 * (section.size - 4 - 4 * counts.size) / x.size
    assert section[0] == 1
    assert entropy < bits < entropy + 0.3
    assert bits < np.ceil(np.log2(counts.size)) - 1


def test_40_buckets_take_less_than_six_bits(rng: np.random.Generator) -> None:
    section = encode_section(wc.codecs.SketchML(40), rng.normal(size=50_000).astype(np.float32))
    assert section[0] == 1
    assert 5.32 < 8 * section.size / 50_000 < 5.5


@pytest.mark.parametrize("r", [4095, 4096, 4097, 16_384, 16_385, 20_000, 40_960])
def test_any_number_of_spans(rng: np.random.Generator, r: int) -> None:
    x = rng.geometric(0.5, r).clip(1, 20).astype(np.float32)
    assert encode_section(wc.codecs.SketchML(64), x)[0] == 1
    assert np.unique(x).size <= 21
    decoded = round_trip(wc.codecs.SketchML(64), x)
    assert np.array_equal(decoded[x <= 4], x[x <= 4])  # each a bucket of its own
    assert np.abs(decoded - x).max() < 16


def test_float64_beyond_float32_raises() -> None:
    with pytest.raises(wc.EncodeError, match=r"too large for the float32 of sketchml") as caught:
        wc.codecs.SketchML().encode(np.array([1.0, 1e39]), 0)
    assert caught.value.position == 1


@pytest.mark.parametrize("buckets", [0, 1, 257, -5, 2.0, "64", None, True])
def test_parameters_out_of_range(buckets: Any) -> None:
    with pytest.raises(wc.EncodeError, match="sketchml: buckets"):
        wc.codecs.SketchML(buckets)


@pytest.mark.nightly
def test_error_feedback_converges(rng: np.random.Generator) -> None:
    """With one bit per element, the distance to a badly scaled quadratic's minimum falls below 0.01 %."""
    curvature, target = 10.0 ** rng.uniform(-2, 0, 40), rng.normal(size=40)
    c = wc.Compressor("all | raw-index | sketchml(buckets=2)")
    w = np.zeros(40)
    for _ in range(3000):
        w -= 0.3 * c.decompress(c.compress({"w": curvature * (w - target)}))["w"].values
    assert np.linalg.norm(w - target) < 1e-4 * np.linalg.norm(target)


@pytest.mark.parametrize(
    "scheme", ["all | raw-index | sketchml", "topk(0.1) | huffman | sketchml(buckets=128)"]
)
def test_scheme_string_round_trip(scheme: str) -> None:
    assert str(wc.Scheme.parse(scheme)) == scheme
