"""Tests of ``encode``, ``decode`` and ``decode_add`` as a whole."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import wirecodec as wc
from formats.reference import reseal
from tests.wirecodec.container.small import X
from wirecodec.container.writer import CHUNK


def test_decode_add_touches_nothing_before_all_is_valid() -> None:
    tensors = {"a": X, "b": X.reshape(2, 4)}
    blob = wc.encode_many(tensors, "nonzero | rice | raw")
    out = {"a": np.ones(8, np.float64), "b": np.ones((2, 4), np.float32)}
    wc.decode_add(blob, out, scale=3)
    assert np.array_equal(out["a"], 1 + 3 * X.astype(float))
    assert np.array_equal(out["b"], 1 + 3 * X.reshape(2, 4))
    broken = bytearray(blob)
    broken[-9] ^= 1
    before = {name: x.copy() for name, x in out.items()}
    for wrong in (broken, reseal(bytes(blob[:-8])), wc.encode_many({"a": X}), wc.encode(X)):
        with pytest.raises(wc.WireError):
            wc.decode_add(wrong, out)
        assert all(np.array_equal(out[n], before[n]) for n in out)
    with pytest.raises(wc.SchemaMismatch, match="schema-shape"):
        wc.decode_add(wc.encode(X), np.zeros(9, np.float32))
    with pytest.raises(TypeError):
        wc.decode_add(blob, out, scale=None)
    assert all(np.array_equal(out[n], before[n]) for n in out)
    frozen = np.zeros(8, np.float32)
    frozen.flags.writeable = False
    for unfit in (
        [0.0] * 8,
        frozen,
        np.zeros(16, np.float32)[::2],
        np.zeros(8, np.float16),
        np.zeros(8, np.int32),
    ):
        with pytest.raises(ValueError, match="not a writable"):
            wc.decode_add(wc.encode(X), unfit)


def test_decode_add_is_dense_addition(dtype: np.dtype[Any], rng: np.random.Generator) -> None:
    x = rng.normal(size=3000).astype(dtype)
    for scheme in ("topk(0.1) | rice | qsgd", None, "all | raw-index | raw"):
        blob = wc.encode(x, scheme)
        out = rng.normal(size=3000).astype(np.float32)
        expected = out + np.float32(0.3) * wc.decode(blob).to_dense().astype(np.float32)
        wc.decode_add(blob, out, scale=0.3)
        assert np.array_equal(out, expected)


def test_raw_values_are_views_that_cannot_be_written() -> None:
    blob = wc.encode(X, "all | raw-index | raw")
    decoded = wc.decode(blob)
    assert np.shares_memory(decoded.values, blob)
    with pytest.raises(ValueError, match="read-only"):
        decoded.values[0] = 1


def test_seeds_keys_and_bases_change_the_draws(rng: np.random.Generator) -> None:
    x = rng.normal(size=2000).astype(np.float32)
    scheme = "all | raw-index | qsgd(bits=2)"
    blobs = {wc.encode(x, scheme, seed=s).tobytes() for s in (0, 1, 2**64 - 1)}
    assert len(blobs) == 3
    both = wc.decode_many(wc.encode_many({"a": x, "b": x}, scheme))
    assert not np.array_equal(both["a"].values, both["b"].values)


def test_chunks_that_are_full_empty_or_sparse_join_to_one_tensor() -> None:
    """Each of five chunks stores something else; a container of two tensors joins them by another way."""
    size = 4 * CHUNK + 3
    indices = np.r_[5, CHUNK - 1, CHUNK : 2 * CHUNK, 3 * CHUNK + 1, 4 * CHUNK : size]
    values = np.resize(np.arange(1, 2000).astype(np.float16), indices.size)
    tensor = wc.SparseTensor(indices, values, (size,))
    alone = wc.decode(wc.encode(tensor, "nonzero | rice | raw"))
    pair = wc.encode_many({"a": tensor, "b": np.ones(1, np.float32)}, "nonzero | rice | raw")
    for found in (alone, wc.decode_many(pair)["a"]):
        np.testing.assert_array_equal(found.indices, indices)
        np.testing.assert_array_equal(found.values, values)


def test_the_chunks_of_an_only_tensor_share_the_limit_of_work() -> None:
    """Each of two chunks is within the limit; together they are not."""
    where = np.r_[np.arange(0, 3000, 3), CHUNK + np.arange(0, 3000, 3)]
    tensor = wc.SparseTensor(where, np.ones(where.size, np.float32), (CHUNK + 3000,))
    blob = wc.encode(tensor, "nonzero | bloom | raw")
    with pytest.raises(wc.LimitExceeded, match="max-work") as error:
        wc.decode(blob, limits=wc.DecodeLimits(max_work=CHUNK * 5 // 4 + 100))
    assert error.value.entry == 1
