"""``decode_add(finite=…, max_norm=…)``: updates from strangers are checked before anything is added."""

from __future__ import annotations

import math
import re
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import wirecodec as wc
from tests.oracles import Array

SCHEMES = ["all | raw-index | raw", "nonzero | rice | raw", "nonzero | rice | zstd"]


def refused(blob: Any, out: dict[str, Array], **options: Any) -> str:
    """Return the code of the refusal; nothing may have been added."""
    before = {name: x.copy() for name, x in out.items()}
    with pytest.raises(wc.WireError) as info:
        wc.decode_add(blob, out, **options)
    for name, x in out.items():
        np.testing.assert_array_equal(x, before[name])
    return info.value.code


@pytest.mark.parametrize("fuse", [0, 100])
@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_nan_and_inf_are_refused(scheme: str, fuse: int, bad: float, dtype: np.dtype[Any]) -> None:
    """Also in the last tensor, and without ``finite`` they are added."""
    tensors = {name: np.arange(1, 51).astype(dtype) for name in "ab"}
    tensors["b"][49] = bad
    blob = wc.encode_many(tensors, scheme, fuse=fuse)
    out = {name: np.ones(50, np.float32) for name in "ab"}
    assert refused(blob, out, finite=True) == "nonfinite"
    wc.decode_add(blob, out)
    assert not np.isfinite(out["b"][49])


def test_values_that_overflow_in_the_model_are_refused() -> None:
    blob = wc.encode_many({"w": np.array([1, 1e39])})
    assert refused(blob, {"w": np.zeros(2, np.float32)}, finite=True) == "nonfinite"
    wc.decode_add(blob, {"w": np.zeros(2)}, finite=True)
    large = wc.encode_many({"w": np.array([1, 3e38], np.float32)})
    assert refused(large, {"w": np.zeros(2, np.float32)}, finite=True, scale=2) == "nonfinite"


def test_the_norm_is_that_of_all_values() -> None:
    """3, 4 and 12 in two tensors have norm 13; the scale does not matter."""
    blob = wc.encode_many({"a": np.array([3, 0, 4], np.float32), "b": np.array([0, 12], np.float32)})
    out = {"a": np.zeros(3, np.float32), "b": np.zeros(2, np.float32)}
    assert refused(blob, out, max_norm=12.99) == "max-norm"
    wc.decode_add(blob, out, max_norm=13, scale=2)
    assert out["b"][1] == 24


@pytest.mark.parametrize("size", [2, 70_000])
def test_the_norm_is_right_over_the_whole_range(size: int, dtype: np.dtype[Any]) -> None:
    """The norm of 3 · 2^e and 4 · 2^e in two tensors is 5 · 2^e, also if squares overflow or underflow."""
    info = ml_dtypes.finfo(dtype)
    first = math.frexp(float(info.smallest_subnormal))[1] - 1
    last = math.frexp(float(info.max))[1] - 3
    out = {"a": np.zeros(size), "b": np.zeros(1)}
    halfway = -538 if dtype == np.float64 else 0  # where squares are subnormal
    for exponent in [halfway, *np.linspace(first, last, 30 if size == 2 else 9).astype(int).tolist()]:
        a, b = np.zeros(size, dtype), np.array([math.ldexp(4, exponent)], dtype)
        a[-1] = -math.ldexp(3, exponent)
        blob, norm = wc.encode_many({"a": a, "b": b}), math.ldexp(5, exponent)
        wc.decode_add(blob, out, max_norm=norm)
        assert refused(blob, out, max_norm=math.nextafter(norm, 0)) == "max-norm"
        assert refused(blob, out, max_norm=0) == "max-norm"


def test_norms_at_the_ends_of_the_range() -> None:
    out = {"a": np.zeros(2), "b": np.zeros(1)}
    largest = float(np.finfo(np.float64).max)
    beyond = wc.encode_many({"a": np.full(2, largest), "b": np.ones(1)})
    assert refused(beyond, out, max_norm=largest) == "max-norm"
    wc.decode_add(beyond, out, max_norm=math.inf)
    wc.decode_add(wc.encode_many({"a": np.zeros(2), "b": -np.zeros(1)}), out, max_norm=0)
    mixed = wc.encode_many({"a": np.array([1e-200, 1e-300]), "b": np.ones(1, np.float16)})
    wc.decode_add(mixed, out, max_norm=1)


@pytest.mark.parametrize(
    ("norm", "limit"), [(5.0, 4.999999), (5.0, math.nextafter(5, 0)), (1e300, 1e200), (1e-170, 1e-200)]
)
def test_the_message_shows_that_the_norm_is_larger(norm: float, limit: float) -> None:
    with pytest.raises(wc.LimitExceeded, match="the values have norm") as info:
        wc.decode_add(wc.encode(np.array([norm, 0])), np.zeros(2), max_norm=limit)
    shown = [float(number) for number in re.findall(r"(?:norm|is) ([0-9.e+-]+[0-9])", str(info.value))]
    assert shown == [norm, limit]


@pytest.mark.parametrize("value", [np.nan, 1e200, 3e38])
def test_a_huge_update_has_no_norm_below_the_limit(value: float) -> None:
    blob = wc.encode_many({"w": np.full(70_000, value)})
    assert refused(blob, {"w": np.zeros(70_000)}, max_norm=1e6) == "max-norm"


def test_a_transformed_tensor_is_checked_as_it_is_added() -> None:
    x = np.cos(np.arange(100)).astype(np.float32)
    blob = wc.encode_many({"w": x}, "dct | topk(0.2) | rice | raw")
    out = {"w": np.zeros(100, np.float32)}
    norm = float(np.linalg.norm(wc.decode_many(blob)["w"].to_dense()))
    assert refused(blob, out, max_norm=0.99 * norm) == "max-norm"
    wc.decode_add(blob, out, max_norm=1.01 * norm, finite=True)


@pytest.mark.parametrize(
    ("options", "what"), [({"max_norm": -1}, "max_norm is -1"), ({"finite": 1}, "finite is 1")]
)
def test_the_options_are_checked(options: dict[str, Any], what: str) -> None:
    with pytest.raises(ValueError, match=what):
        wc.decode_add(wc.encode(np.ones(3)), np.zeros(3), **options)


def test_the_first_container_at_fault_is_reported() -> None:
    """The values of a container are checked before the next one is decoded."""
    big, out = wc.encode(np.full(4, 9, "f4")), np.zeros(4, "f4")
    broken = big.copy()
    broken[-1] ^= 1
    for blobs, code in (([big, broken], "max-norm"), ([broken, big], "entry-checksum")):
        with pytest.raises(wc.WireError) as info:
            wc.decode_add(blobs, out, max_norm=1.0)
        assert (info.value.code, info.value.container) == (code, 0)
    assert not out.any()


def test_the_error_of_an_only_container_has_no_number() -> None:
    blob, out = wc.encode(np.ones(4, "f4")), np.zeros(4, "f4")
    for one in (blob[:20], blob):
        for blobs in (one, [one]):
            with pytest.raises(wc.WireError) as info:
                wc.decode_add(blobs, out, max_norm=1.0)
            assert info.value.container is None
