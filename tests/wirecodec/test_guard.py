"""``decode_add(finite=…, max_norm=…)``: updates from strangers are checked before anything is added."""

from __future__ import annotations

from typing import Any

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
