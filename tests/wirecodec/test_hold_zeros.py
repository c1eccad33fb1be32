"""``Compressor.prepare(hold_zeros=True)``: a tensor that was not used sends nothing and keeps its state."""

from __future__ import annotations

import numpy as np
import pytest

import wirecodec as wc
from tests.oracles import Array

SCHEMES = [
    "all | raw-index | raw",
    "all | raw-index | qsgd(bits=4)",
    "topk(0.1) | rice | raw",
    "topk(0.1) | bloom(policy=p0) | sign-scale",
    "adacomp | rice | mean",
    "sidco(0.1) | rice | polyfit",
    "dct | topk(0.1) | rice | raw",
]


def state(compressor: wc.Compressor, name: str) -> dict[str, bytes]:
    return {key: x.tobytes() for key, x in compressor.state_dict().items() if key.endswith(f"/{name}")}


@pytest.mark.parametrize("fuse", [0, 1000])
@pytest.mark.parametrize("scheme", SCHEMES)
def test_a_zero_gradient_is_held(rng: np.random.Generator, scheme: str, fuse: int) -> None:
    """Its residual and its selector's state do not change, and receivers get nothing of it."""
    compressor = wc.Compressor(scheme, fuse=fuse)
    first: dict[str, Array] = {name: rng.standard_normal(300).astype("f4") for name in "abw"}
    compressor.compress(first)
    before = state(compressor, "w")
    second = {name: rng.standard_normal(300).astype("f4") for name in "ab"} | {"w": np.zeros(300, "f4")}
    prepared = compressor.prepare(second, hold_zeros=True)
    received = wc.decode_many(prepared.blob, schema={name: ((300,), np.dtype("f4")) for name in "abw"})
    prepared.commit()
    assert state(compressor, "w") == before
    assert received["w"].nnz == prepared.sent["w"].nnz == 0
    assert received["a"].nnz > 0
    assert compressor.step == 2


def test_by_default_zeros_send_the_residual() -> None:
    compressor = wc.Compressor("topk(k=1) | rice | raw")
    compressor.compress({"w": np.array([3, 2], "f4")})
    assert compressor.prepare({"w": np.zeros(2, "f4")}).sent["w"].nnz == 1


@pytest.mark.parametrize("at", [0, 1023, 1024, 70_000, 99_999])
def test_one_nonzero_element_is_a_gradient(at: int, dtype: np.dtype[np.generic]) -> None:
    """-0 is zero; the smallest number and NaN are not."""
    x = np.full(100_000, -0.0).astype(dtype)
    compressor = wc.Compressor("nonzero | rice | raw", feedback=None)
    assert compressor.prepare({"w": x}, hold_zeros=True).sent["w"].nnz == 0
    x[at] = np.nan if at == 1023 else 1e-7
    assert compressor.prepare({"w": x}, hold_zeros=True).sent["w"].nnz == 100_000
