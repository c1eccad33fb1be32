"""Sums and means of containers against NumPy, with and without what this process has encoded."""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any

import numpy as np
import pytest

import wirecodec as wc
from wirecodec.cpu import fast
from wirecodec.cpu.fast.add import RANGE
from wirecodec.element_types import BFLOAT16
from wirecodec.interop import decode_sum

SIZES = (1000, 2 * RANGE + 777, 7, 1, 50_000, 2**16, 65)
SCHEMES = (
    "topk(0.01) | rice | raw(bfloat16)",
    "topk(0.3) | delta | qsgd(bits=4)",
    "all | raw-index | qsgd(bits=8)",
    "topk(0.01) | bloom(p2) | raw",
    "dct | topk(0.1) | rice | raw",
    "budget(bits=0.5) | rice | error-bounded",
)


def make(dtype: Any, ranks: int = 3) -> list[dict[str, Any]]:
    draw = np.random.default_rng(5)
    return [
        {f"t{i}": draw.standard_normal(size).astype(dtype) for i, size in enumerate(SIZES)}
        for _ in range(ranks)
    ]


def expect(blobs: list[Any], like: dict[str, Any], divisor: int) -> dict[str, Any]:
    """Add dense tensors in their order, and divide."""
    means = {}
    with np.errstate(all="ignore"):
        for name, out in like.items():
            total = np.zeros(out.size, out.dtype)
            for blob in blobs:
                total += wc.decode_many(blob)[name].to_dense().reshape(-1).astype(out.dtype)
            means[name] = total / out.dtype.type(divisor)
    return means


@pytest.mark.filterwarnings("ignore:.*does not hold the header")
@pytest.mark.sampled
@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("scope", ["tensor", "group"])
@pytest.mark.parametrize("is_fast", [True, False])
def test_means_have_the_bits_of_dense_sums(scheme: str, scope: Any, is_fast: bool) -> None:
    if scope == "group" and "dct" in scheme:
        pytest.skip("a group has no transform")
    for dtype, wide in ((np.float32, np.float32), (BFLOAT16, np.float32), (np.float64, np.float64)):
        prepared = [wc.Compressor(scheme, scope=scope).prepare(x, rank=k) for k, x in enumerate(make(dtype))]
        blobs = [one.blob for one in prepared]
        out = {f"t{i}": np.full(size, 9, wide) for i, size in enumerate(SIZES)}
        means = expect(blobs, out, 3)
        for sent in ({}, {1: prepared[1].sent}):
            with nullcontext() if is_fast else fast.off():
                assert decode_sum(blobs, out, divisor=3, sent=sent)
            for name, mean in means.items():
                assert out[name].tobytes() == mean.tobytes(), (name, dtype)


@pytest.mark.parametrize("divisor", [1, 2, 3])
@pytest.mark.parametrize("ratio", [0.01, 1])
def test_results_that_are_not_finite_are_found(divisor: int, ratio: float) -> None:
    sizes = {f"t{i}": size for i, size in enumerate((40, 3 * RANGE, 100, 9))}
    for name, at in (("t0", 39), ("t1", 2 * RANGE + 3), ("t3", 0)):
        for is_fast in (True, False):
            tensors = {key: np.zeros(size, np.float32) for key, size in sizes.items()}
            for x in tensors.values():
                x[:: round(1 / ratio)] = 1
            tensors[name][at] = 3e38
            blob = wc.encode_many(tensors, "nonzero | rice | raw")
            out = {key: np.empty(size, np.float32) for key, size in sizes.items()}
            with nullcontext() if is_fast else fast.off():
                assert decode_sum([blob], out, divisor=divisor)
                assert not decode_sum([blob, blob], out, divisor=divisor)
            assert np.isinf(out[name][at])
            assert sum(np.isinf(x).sum() for x in out.values()) == 1


def test_what_receivers_must_decode_is_decoded() -> None:
    """A lossy index codec finds other elements than those selected."""
    (tensors,) = make(np.float32, 1)
    for scheme, known in (("topk(0.01) | bloom(p0, 0.1) | raw", False), ("topk(0.01) | rice | raw", True)):
        sent = wc.Compressor(scheme).prepare(tensors).sent
        assert (sent.known_values() is not None) == known


def test_containers_of_other_tensors_are_found_beside_the_own_one() -> None:
    (tensors,) = make(np.float32, 1)
    prepared = wc.Compressor(SCHEMES[0]).prepare(tensors)
    schema = {name: (x.shape, x.dtype) for name, x in tensors.items()}
    first = tensors["t0"]
    for change in (
        {**tensors, "t0": first[:-1]},
        {**tensors, "t0": first.astype(np.float64)},
        {**tensors, "t0": first.reshape(10, 100)},
        {"u" + name[1:]: x for name, x in tensors.items()},
    ):
        other = wc.Compressor(SCHEMES[0]).compress(change)
        for blobs, own in (([prepared.blob, other], 0), ([other, prepared.blob], 1)):
            out = {name: np.full_like(x, 9) for name, x in tensors.items()}
            with pytest.raises(wc.SchemaMismatch) as caught:
                decode_sum(blobs, out, sent={own: prepared.sent}, schema=schema)
            assert caught.value.container == 1 - own
            assert all((x == 9).all() for x in out.values())


def test_what_was_sent_of_a_larger_tensor_is_refused() -> None:
    """The caller has mixed up what was sent: values beyond the array would be written elsewhere."""
    small, large = ({"a": np.eye(1, size, dtype=np.float32)[0], "b": np.ones(1, "f4")} for size in (5, 10))
    blob, prepared = wc.encode_many(small), wc.Compressor("nonzero | rice | raw").prepare(large)
    out = {name: np.zeros_like(x) for name, x in small.items()}
    with pytest.raises(ValueError, match="longer than its array"):
        decode_sum([blob], out, sent={0: prepared.sent})


def test_each_container_has_its_factor() -> None:
    blobs = [wc.encode(np.array(values, np.float32)) for values in ([1, 0, 3], [0, 5, 7])]
    out = np.empty(3, np.float32)
    assert decode_sum(blobs, out, divisor=2, scales=[3, 0.5])
    assert out.tolist() == [1.5, 1.25, 6.25]
