"""Tests of corner cases, for every value codec, variant and element type.

The result is finite, and equal if the codec is exact; otherwise EncodeError has the element's position.
"""

from __future__ import annotations

from itertools import product
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import wirecodec as wc
from tests.wirecodec.value.test_properties import label
from tests.wirecodec.value.traits import CODECS, traits_of


def scheme(codec: Any, select: Any = None) -> wc.Scheme:
    return wc.Scheme(select or wc.selectors.All(), wc.codecs.RawIndex(), codec)


def carries_nonfinite(codec: Any) -> bool:
    """Check if a codec preserves NaN and Inf; choices do, because they can choose raw."""
    return bool(getattr(codec, "carries_nonfinite", True))


def powers(first: float, last: float, count: int) -> Any:
    """Return a geometric sequence; np.geomspace overflows."""
    return np.exp2(
        np.linspace(np.log2(first), np.log2(last), count).clip(np.log2(first), np.log2(last) - 1e-9)
    )


def try_round_trip(codec: Any, values: Any) -> tuple[Any, int | None]:
    """Return the decoded tensor and None, or None and the position of the EncodeError, -1 for none."""
    try:
        blob = wc.encode(values, scheme(codec))
    except wc.EncodeError as error:
        return None, -1 if error.position is None else error.position
    return wc.decode(blob), None


def finite_corner_cases(dtype: np.dtype[Any]) -> dict[str, Any]:
    """Return finite, non-empty vectors of a type."""
    info = ml_dtypes.finfo(dtype)
    largest, tiny, least = float(info.max), float(info.smallest_normal), float(info.smallest_subnormal)
    cases: dict[str, Any] = {
        "one": [1.0],
        "minus one": [-1.0],
        "one zero": [0.0],
        "one minus zero": [-0.0],
        "zeros": [0.0] * 600,
        "zeros of both signs": [0.0, -0.0] * 20,
        "one largest": [largest],
        "one least": [-least],
        "constant": [0.3] * 600,
        "constant largest": [-largest] * 600,
        "constant least": [least] * 600,
        "largest of both signs": [largest, -largest] * 300,
        "largest and least": [largest, -least, tiny, -largest, least],
        "largest among zeros": [0.0] * 520 + [largest] + [0.0] * 20,
        "least among zeros": [0.0] * 520 + [-least] + [0.0] * 20,
        "subnormal": least * np.arange(-20, 20),
        "normal to subnormal": tiny * 2.0 ** np.arange(-6, 7),
        "next to the largest": largest * (1 - np.arange(40) / 128),
        "all of the range": np.sign(np.arange(80) % 2 - 0.5) * powers(tiny, largest, 80),
        "two": [1.0, 2.0],
        "one step apart": 1 + float(info.eps) * np.arange(100),
    }
    return {name: np.array(values, np.float64).astype(dtype) for name, values in cases.items()}


@pytest.mark.sampled
@pytest.mark.parametrize("codec", CODECS, ids=label)
def test_result_is_finite_or_the_error_has_a_position(codec: Any, dtype: np.dtype[Any]) -> None:
    for name, values in finite_corner_cases(dtype).items():
        found, position = try_round_trip(codec, values)
        if position is not None:
            assert 0 <= position < values.size, name
            assert not traits_of(codec).exact, name
            assert abs(values[position]) > 1, name  # only large magnitudes raise
            continue
        assert (found.dtype, found.values.shape) == (dtype, values.shape), name
        assert np.isfinite(found.values.astype(np.float64)).all(), name
        if traits_of(codec).exact:
            assert np.array_equal(found.values.view(np.uint8), values.view(np.uint8)), name
        elif (values == 0).all():
            assert (found.values == 0).all(), name


@pytest.mark.sampled
@pytest.mark.parametrize("codec", CODECS, ids=label)
def test_nonfinite_values_are_preserved_or_raise(codec: Any, dtype: np.dtype[Any]) -> None:
    """Codecs that declare it preserve them; for others, EncodeError has the first one's position."""
    for bad, (at, size) in product((np.nan, np.inf, -np.inf), ((0, 1), (0, 700), (699, 700), (512, 700))):
        values = np.ones(size, dtype)
        values[at:] = bad
        if carries_nonfinite(codec):
            found = wc.decode(wc.encode(values, scheme(codec))).values
            assert np.array_equal(found.astype(float), values.astype(float), equal_nan=True)
            continue
        with pytest.raises(wc.EncodeError) as caught:
            wc.encode(values, scheme(codec))
        assert caught.value.position == at


@pytest.mark.sampled
@pytest.mark.parametrize("codec", CODECS, ids=label)
def test_empty_selections(codec: Any, dtype: np.dtype[Any]) -> None:
    """The tensor is empty, or no element is selected; the codec is not called."""
    for size, select in ((0, wc.selectors.All()), (0, wc.selectors.NonZero()), (50, wc.selectors.NonZero())):
        found = wc.decode(wc.encode(np.zeros(size, dtype), scheme(codec, select)))
        assert (found.dtype, found.values.size, found.size) == (dtype, 0, size)


@pytest.mark.sampled(17)
@pytest.mark.parametrize("codec", CODECS, ids=label)
def test_float64_beyond_float32(codec: Any) -> None:
    """The first value that is too large raises, or the result is finite."""
    values = np.ones(700)
    values[[600, 650]] = 1e300, -1e308
    found, position = try_round_trip(codec, values)
    assert position in (None, 600)
    if found is not None:
        assert np.isfinite(found.values).all()
        assert not traits_of(codec).exact or np.array_equal(found.values, values)


@pytest.mark.sampled(17)
@pytest.mark.parametrize("codec", CODECS, ids=label)
def test_float64_below_float32(codec: Any) -> None:
    """The magnitudes underflow in float32."""
    for values in (np.full(600, 1e-300), powers(1e-307, 1e-30, 600), np.array([5e-324])):
        found = wc.decode(wc.encode(values, scheme(codec))).values
        assert np.isfinite(found).all()
        assert (np.abs(found) <= 2 * values.max()).all() or not found.any()
