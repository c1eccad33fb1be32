"""Tests of auto-value: the choice is the smallest section within the error, compared with all candidates."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import wirecodec as wc
from tests import inputs, oracles
from wirecodec.element_types import DTYPES
from wirecodec.limits import UNLIMITED
from wirecodec.registry import value_codecs
from wirecodec.value.raw import RawBfloat16, RawFloat16


def all_candidates(error: float, dtype: Any) -> list[Any]:
    """Return every candidate, with all parameters."""
    found = [
        wc.codecs.Raw(),
        wc.codecs.SignScale(),
        wc.codecs.ErrorBounded(error),
        *(wc.codecs.QSGD(bits) for bits in range(2, 9)),
    ]
    found += [
        wc.codecs.Mean(),
        wc.codecs.Zstd(),
        wc.codecs.Deflate(),
        wc.codecs.TernGrad(),
        wc.codecs.ThreeLC(),
    ]
    found += [
        *(wc.codecs.OffsetFloat(n) for n in range(2, 17)),
        *(wc.codecs.SketchML(n) for n in (4, 16, 64, 256)),
    ]
    return found + ([RawFloat16(), RawBfloat16()] if dtype.itemsize > 2 else [])


def check_choice(values: Any, error: float, stream: int) -> None:
    """Check that the choice is within the error, and that nothing within it is more than 2 % smaller."""
    chosen, section = wc.codecs.AutoValue(error).choose(values, stream)
    assert chosen in all_candidates(error, values.dtype)
    for codec in all_candidates(error, values.dtype):
        try:
            encoded = np.frombuffer(bytes(codec.encode(values, stream)), np.uint8)
        except wc.EncodeError:
            continue
        if codec == chosen:
            assert np.array_equal(encoded, section)
        if codec == chosen or 1.02 * encoded.size < len(section):
            read = codec.decode(encoded, values.size, values.dtype, UNLIMITED)
            assert oracles.is_within_error(values, read, error) == (codec == chosen), codec


@st.composite
def vectors(draw: st.DrawFn) -> Any:
    dtype = draw(st.sampled_from(DTYPES))
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    r = draw(st.one_of(st.integers(1, 40), st.integers(1, 1500)))
    kind = draw(st.integers(0, 4))
    x = [
        rng.laplace(size=r),
        rng.choice([-1.0, 1.0], r),
        rng.normal(size=r).astype(np.float16).astype(np.float64),
        rng.standard_t(1.2, r).clip(-6e4, 6e4),
        np.zeros(r),
    ][kind]
    return (x * 10.0 ** draw(st.sampled_from([0, 0, -3, -7, -30]))).astype(dtype)


@settings(max_examples=120)
@given(vectors(), st.sampled_from([0.9, 0.3, 0.1, 0.03, 0.01, 1e-3, 1e-5]), st.integers(0, 2**64 - 1))
def test_choice_is_the_smallest_within_the_error(values: Any, error: float, stream: int) -> None:
    check_choice(values, error, stream)


def bursts(rng: np.random.Generator, r: int) -> Any:
    """Draw values with nearly all energy in a short stretch."""
    x = 1e-4 * rng.normal(size=r)
    at = rng.integers(0, r - 300)
    x[at : at + 300] = rng.laplace(size=300)
    return x


MANY: dict[str, Any] = {
    "laplace": lambda rng, r: rng.laplace(size=r),
    "tails": lambda rng, r: rng.standard_t(1.5, r),
    "levels": lambda rng, r: rng.choice([-1.0, 0.0, 0.5, 1.0], r),
    "signs": lambda rng, r: rng.choice([-1.0, 1.0], r) * (1 + 0.01 * rng.random(r)),
    "few": lambda rng, r: np.where(rng.random(r) < 0.002, rng.laplace(size=r), 0.0),
    "same": lambda rng, r: 1 + 1e-4 * rng.random(r),
    "repeats": lambda rng, r: np.tile(rng.normal(size=5000), -(-r // 5000))[:r],
    "wild": lambda rng, r: rng.choice([-1.0, 1.0], r) * 10.0 ** rng.uniform(-6, 0, r),
    "bursts": bursts,
    "waves": lambda rng, r: rng.laplace(size=r) * np.where(np.arange(r) // 700 % 9, 1e-3, 1.0),
}


@pytest.mark.sampled(10)
@pytest.mark.parametrize("kind", MANY)
@pytest.mark.parametrize("error", [0.8, 0.3, 0.05, 0.01, 1e-4])
def test_choice_is_the_smallest_for_many_values(kind: str, error: float) -> None:
    """Excluding candidates by a sample does not change the result."""
    rng = np.random.default_rng([len(kind), int(1e4 * error)])
    values = MANY[kind](rng, 33_000).astype(np.float32)
    check_choice(values, error, 7)


def test_error_holds_for_corner_cases(dtype: np.dtype[Any]) -> None:
    for name, values in inputs.value_vectors(np.random.default_rng(2), dtype).items():
        for error in (0.5, 0.01):
            blob = wc.encode(values, f"all | raw-index | auto-value(error={error})", seed=3)
            assert oracles.is_within_error(values, wc.decode(blob).values, error), name


def test_every_registered_codec_is_a_candidate_or_exempt() -> None:
    """A new value codec must be tried, or be listed here as exempt."""
    known = {type(codec) for codec in all_candidates(0.01, np.dtype(np.float32))}
    ordered = {wc.codecs.PolyFit, wc.codecs.DExpFit}  # their map alone is larger than other sections
    assert known | ordered == set(value_codecs().values())


@pytest.mark.parametrize(
    ("values", "error", "name"),
    [
        (np.full(700, -0.1), 1e-9, "mean"),
        (np.random.default_rng(1).choice([0.1, -0.1], 600), 1e-9, "sign-scale"),
        (np.arange(1, 11) / 8, 1e-3, "raw-float16"),
        (np.random.default_rng(1).laplace(size=5000), 0.01, "error-bounded"),
        (np.random.default_rng(1).normal(size=10), 0.4, "qsgd"),
        (np.array([1.0, np.nan]), 0.5, "raw"),
        (np.array([1e-300, 2e-300]), 0.5, "raw"),
    ],
)
def test_choice_of_known_cases(values: Any, error: float, name: str) -> None:
    assert wc.codecs.AutoValue(error).choose(values, 0)[0].name == name


def test_empty_supports() -> None:
    blob = wc.encode(np.zeros(9, np.float32), "nonzero | rice | auto-value")
    assert wc.decode(blob).indices.size == 0


def test_scheme_string_round_trip() -> None:
    scheme = wc.Scheme.parse("topk(0.01) | auto-index | auto-value(error=0.05)")
    assert scheme.value == wc.codecs.AutoValue(0.05)
    assert str(scheme) == "topk(0.01) | auto-index | auto-value(error=0.05)"
    for error in (0, 1, -0.1, float("nan"), "0.1", True):
        with pytest.raises(wc.EncodeError):
            wc.codecs.AutoValue(error)
