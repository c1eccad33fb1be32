"""Tests of sorting and of the map, beyond round trips with the reference."""

from __future__ import annotations

import tracemalloc
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import wirecodec as wc
from formats import reference
from wirecodec.value import sort_permutation

CURVES = [wc.codecs.PolyFit(), wc.codecs.DExpFit()]


def key(x: float) -> tuple[float, bool]:
    """Return a sort key that places -0 before +0."""
    return x, not np.signbit(x)


@pytest.mark.sampled
@pytest.mark.parametrize("r", [0, 1, 2, 3, 4, 5, 63, 64, 65, 1000, 4097])
def test_sort_ascending_is_stable(rng: np.random.Generator, dtype: np.dtype[Any], r: int) -> None:
    corners = np.array([0.0, -0.0, 1.0, -1.0, 5e-8, -5e-8, 60_000, -60_000, 3.5]).astype(dtype)
    for v in (rng.choice(corners, r), rng.normal(size=r).astype(dtype), np.zeros(r, dtype)):
        found, positions = sort_permutation.sort_ascending(v)
        expected = sorted(range(r), key=lambda i: key(float(v[i])))
        assert positions.tolist() == expected
        assert found.tobytes() == v[expected].tobytes()
        assert sort_permutation.restore_order(found, positions).tobytes() == v.tobytes()


def test_every_finite_float16_is_sorted() -> None:
    v = np.arange(2**16, dtype=np.uint16).view(np.float16)
    v = np.random.default_rng(0).permutation(v[np.isfinite(v)])
    found, _ = sort_permutation.sort_ascending(v)
    assert (np.diff(found.astype(float)) >= 0).all()
    assert np.signbit(found[found == 0]).tolist() == [True, False]


@settings(max_examples=100)
@given(st.integers(0, 600), st.integers(0, 2**32))
def test_map_follows_the_spec_page(r: int, seed: int) -> None:
    positions = np.random.default_rng(seed).permutation(r).astype(np.uint32)
    section = sort_permutation.pack_map(positions)
    width = max(r - 1, 0).bit_length()
    stream = sum(int(p) << (i * width) for i, p in enumerate(positions))
    assert section.tobytes() == stream.to_bytes(sort_permutation.map_bytes(r), "little")
    assert sort_permutation.map_bytes(r) == -(-r * width // 8)
    assert np.array_equal(sort_permutation.unpack_map(section, r), positions)


@settings(max_examples=120)
@given(st.integers(2, 200), st.integers(0, 2**32), st.integers(1, 3))
def test_invalid_permutations_raise(r: int, seed: int, wrong: int) -> None:
    rng = np.random.default_rng(seed)
    numbers = rng.permutation(r).astype(np.uint32)
    width = (r - 1).bit_length()
    for _ in range(wrong):
        numbers[rng.integers(r)] = rng.integers(1 << width)
    section = sort_permutation.pack_map(numbers)
    if sorted(numbers.tolist()) == list(range(r)):
        assert np.array_equal(sort_permutation.unpack_map(section, r), numbers)
        return
    with pytest.raises(wc.Invalid) as caught:
        sort_permutation.unpack_map(section, r)
    assert caught.value.code == "map-permutation"


@pytest.mark.parametrize("codec", CURVES, ids=repr)
def test_values_return_to_their_positions(codec: Any, rng: np.random.Generator) -> None:
    """A wrong position would cause a large error."""
    x = rng.laplace(size=20_000).astype(np.float32)
    for select, index in (
        (wc.selectors.All(), wc.codecs.RawIndex()),
        (wc.selectors.TopK(0.05), wc.codecs.Rice()),
        (wc.selectors.TopK(0.05), wc.codecs.Bitmap()),
    ):
        y = wc.decode(wc.encode(x, wc.Scheme(select, index, codec)))
        assert np.linalg.norm(y.values - x[y.indices]) < 0.07 * np.linalg.norm(y.values)


@pytest.mark.parametrize("codec", CURVES, ids=repr)
def test_with_bloom_the_gathered_values_are_sorted(codec: Any, rng: np.random.Generator) -> None:
    x = rng.laplace(size=20_000).astype(np.float32)
    for policy in ("p0", "p1", "p2"):
        scheme = wc.Scheme(wc.selectors.TopK(0.05), wc.codecs.Bloom(fpr=0.01, policy=policy), codec)
        blob = wc.encode(x, scheme, seed=3)
        y = wc.decode(blob)
        assert np.linalg.norm(y.values - x[y.indices]) < 0.2 * np.linalg.norm(y.values)
        read = reference.decode(blob.tobytes()).tensors[0]
        assert (list(read.indices), read.values) == (y.indices.tolist(), y.values.tobytes())


@pytest.mark.parametrize("codec", CURVES, ids=repr)
def test_fused_tensors_share_a_map(codec: Any, rng: np.random.Generator) -> None:
    tensors = {name: rng.laplace(size=n).astype(np.float32) for name, n in (("a", 300), ("b", 7), ("c", 900))}
    scheme = wc.Scheme(wc.selectors.TopK(0.5), wc.codecs.Rice(), codec)
    blob = wc.encode_many(tensors, scheme, fuse=1000)
    (entry,) = wc.inspect(blob).entries
    assert entry.map_bytes == sort_permutation.map_bytes(entry.nnz)
    for name, y in wc.decode_many(blob).items():
        assert np.linalg.norm(y.values - tensors[name][y.indices]) < 0.2 * np.linalg.norm(y.values)


def test_each_chunk_has_its_own_map(rng: np.random.Generator) -> None:
    size = 2**24 + 50_000
    indices = np.unique(rng.integers(0, size, 3000))
    indices = np.concatenate([indices[:2000], np.arange(2**24, 2**24 + 1000)])
    values = rng.laplace(size=indices.size).astype(np.float32)
    blob = wc.encode(
        wc.SparseTensor(indices, values, (size,)),
        wc.Scheme(wc.selectors.All(), wc.codecs.Rice(), wc.codecs.PolyFit()),
    )
    (entry,) = wc.inspect(blob).entries
    assert (entry.chunks, entry.map_bytes) == (
        2,
        sort_permutation.map_bytes(2000) + sort_permutation.map_bytes(1000),
    )
    y = wc.decode(blob)
    assert np.array_equal(y.indices, indices)
    assert np.linalg.norm(y.values - values) < 0.05 * np.linalg.norm(values)


@pytest.mark.parametrize("codec", CURVES, ids=repr)
def test_map_of_no_values_is_empty(codec: Any) -> None:
    blob = wc.encode(np.zeros(9, np.float32), wc.Scheme(wc.selectors.NonZero(), wc.codecs.Rice(), codec))
    assert blob[24 + 39] == sort_permutation.PACKED
    assert wc.inspect(blob).entries[0].map_bytes == 0
    assert wc.decode(blob).indices.size == 0


@pytest.mark.parametrize("codec", CURVES, ids=repr)
def test_decoding_memory_is_bounded(codec: Any, rng: np.random.Generator, dtype: np.dtype[Any]) -> None:
    x = rng.normal(size=100_000).astype(dtype)
    blob = wc.encode(x, wc.Scheme(wc.selectors.All(), wc.codecs.RawIndex(), codec))
    wc.decode(blob)
    tracemalloc.start()
    try:
        wc.decode(blob)
        assert tracemalloc.get_traced_memory()[1] <= 65_536 + 4 * (blob.size + 12 * x.size)
    finally:
        tracemalloc.stop()


@dataclass(frozen=True)
class Increments:
    """User-defined ordered codec that raises above a bound."""

    name: ClassVar[str] = "increments"
    wire_id: ClassVar[int] = 0x95
    carries_nonfinite: ClassVar[bool] = False
    ordered: ClassVar[bool] = True

    def encode(self, values: Any, stream: int) -> Any:
        assert (np.diff(values) >= 0).all()
        if values[-1] > 100:
            raise wc.EncodeError("above 100", position=int(np.argmax(values > 100)))
        return np.diff(values, prepend=np.float32(0)).view(np.uint8)

    @classmethod
    def decode(cls, section: Any, r: int, dtype: Any, limits: Any) -> Any:
        return np.cumsum(section.view(np.float32), dtype=np.float32)


@pytest.fixture
def registered_increments(own_registry: None) -> None:
    wc.register(Increments)


@pytest.mark.usefixtures("registered_increments")
def test_a_registered_codec_may_order_values(rng: np.random.Generator) -> None:
    x = rng.integers(-50, 50, 500).astype(np.float32)
    assert np.array_equal(wc.decode(wc.encode(x, "all | raw-index | increments")).values, x)
    x[[7, 300]] = 2000, 1000
    with pytest.raises(wc.EncodeError, match="tensor 'w', element 300: above 100"):
        wc.encode_many({"w": x}, "nonzero | rice | increments")
