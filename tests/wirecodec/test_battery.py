"""Tests that run for every registered codec, including new ones without tests of their own."""

from __future__ import annotations

import dataclasses
import struct
from functools import cache
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import wirecodec as wc
from formats import reference
from formats.zstd import find_decompressor
from tests import inputs
from wirecodec.limits import UNLIMITED
from wirecodec.registry import index_codecs, value_codecs

INDEX = sorted(index_codecs().values(), key=lambda c: c.wire_id)
VALUE = sorted(value_codecs().values(), key=lambda c: c.wire_id)
VARIANTS: dict[str, list[dict[str, Any]]] = {
    "huffman": [{}, {"symbols": "keys"}],
    "qsgd": [
        *({"bits": bits} for bits in range(2, 9)),
        {"norm": "l2"},
        {"bucket": 16},
        {"bits": 8, "bucket": 2**24},
        {"bits": 3, "bucket": 48, "norm": "l2"},
    ],
    "deflate": [{}, {"shuffle": False}, {"level": 9}],
    "zstd": [{}, {"shuffle": False}, {"level": 1}],
    "terngrad": [{}, {"clip": 2.5}, {"clip": 0.1}],
    "polyfit": [{}, {"degree": 1}, {"degree": 8, "error": 1e-4}, {"pieces": 1}, {"pieces": 40, "degree": 2}],
    "offset-float": [
        {},
        *({"bits": bits} for bits in (2, 3, 5, 12, 16)),
        {"mantissa": 3, "min": -2, "max": 2, "eps": 0.125},
        {"bits": 6, "mantissa": 0, "eps": 1e-30},
        {"bits": 6, "rounding": "stochastic"},
        {"bits": 3, "mantissa": 23, "max": 0, "rounding": "stochastic"},
    ],
    "3lc": [{}, {"sparsity": 1.75}],
    "sketchml": [{}, {"buckets": 2}, {"buckets": 5}, {"buckets": 256}],
    "bloom": [
        {},
        {"fpr": 0.6},
        *({"policy": policy} for policy in ("naive", "p1", "leftmost", "middle", "rightmost")),
        {"policy": "p2", "fpr": 1e-4},
        {"policy": "p1", "fpr": 0.05},
    ],
    "binned": [{"bin": size} for size in (50, 7, 500, 16_383)],
    "context": [{}, {"period": 0}, {"period": 64}, {"period": 1000}],
    "error-bounded": [{"error": error} for error in (0.01, 0.3, 0.001, 1e-6)],
    "structured": [{"form": form} for form in ("smallest", "gaps", "runs", "bitmap")],
}
SUPPORTS = inputs.supports(np.random.default_rng(1))


def variants(cls: Any) -> list[Any]:
    return [cls(**given) for given in VARIANTS.get(cls.name, [{}])]


@pytest.mark.sampled
@pytest.mark.parametrize("codec", [v for c in INDEX for v in variants(c)], ids=repr)
@pytest.mark.parametrize("case", SUPPORTS)
def test_index_round_trip(codec: Any, case: str) -> None:
    """A lossy codec decodes to its own approximation: a superset, or as many indices as the input."""
    d, indices = SUPPORTS[case]
    section, found = codec.encode(indices, d, 7), indices
    if codec.lossy:
        made = codec.approximate(indices, d, 7)
        assert np.array_equal(made.section, section)
        found = made.found if made.found is not None else codec.decode(section, d, indices.size, UNLIMITED)
        assert found.size == indices.size or np.isin(indices, found).all()
        if found.size == d:
            return
    assert section.dtype == np.uint8
    decoded = type(codec).decode(section, d, found.size, UNLIMITED)
    assert decoded.dtype == np.uint32
    assert np.array_equal(decoded, found)


@pytest.mark.sampled
@pytest.mark.parametrize("codec", [v for c in INDEX for v in variants(c)], ids=repr)
@pytest.mark.parametrize("case", [name for name, (_, s) in SUPPORTS.items() if s[-1] < 2_000_000])
def test_index_sections_read_by_the_reference(codec: Any, case: str) -> None:
    d, indices = SUPPORTS[case]
    d = min(d, int(indices[-1]) + 2)  # the reference reads bitmaps bit by bit, slowly
    tensor = wc.SparseTensor(indices, np.arange(1, indices.size + 1, dtype=np.float32), (d,))
    blob = wc.encode(tensor, wc.Scheme(wc.selectors.All(), codec, wc.codecs.Raw()), seed=3).tobytes()
    (read,), found = reference.decode(blob).tensors, wc.decode(blob)
    assert list(read.indices) == found.indices.tolist()
    assert read.values == found.values.tobytes()
    assert codec.lossy or np.array_equal(found.indices, indices)


def vector_cases(dtype: Any) -> dict[str, Any]:
    return inputs.value_vectors(np.random.default_rng(2), dtype)


@pytest.mark.sampled
@pytest.mark.parametrize("codec", [v for c in VALUE for v in variants(c)], ids=repr)
def test_value_sections_read_by_the_reference(codec: Any, dtype: np.dtype[Any]) -> None:
    """Library and reference decode the same bits; decoding is finite, as the input was."""
    if codec.name in ("raw-float16", "raw-bfloat16"):
        codec = wc.codecs.Raw(
            codec.name.removeprefix("raw-")
        )  # picks the wire codec by the type, as schemes do
    for name, values in vector_cases(dtype).items():
        if codec == wc.codecs.Raw("float16") and np.abs(values.astype(float)).max() > 65504:
            continue
        if codec == wc.codecs.Raw("bfloat16") and name == "largest":
            continue
        blob = wc.encode(values, wc.Scheme(wc.selectors.All(), wc.codecs.RawIndex(), codec), seed=5)
        decoded = wc.decode(blob)
        assert decoded.dtype == dtype
        assert np.isfinite(decoded.values.astype(np.float64)).all(), name
        assert (
            reference.decode(blob.tobytes(), zstd=find_decompressor()).tensors[0].values
            == decoded.values.tobytes()
        ), name


@pytest.mark.parametrize("codec", [v for c in VALUE for v in variants(c) if c.carries_nonfinite], ids=repr)
def test_nonfinite_values_that_are_carried(codec: Any) -> None:
    values = np.array([np.nan, -np.nan, np.inf, -np.inf, 1.0, -0.0], np.float32)
    decoded = wc.decode(wc.encode(values, wc.Scheme(wc.selectors.All(), wc.codecs.RawIndex(), codec))).values
    assert np.array_equal(np.isnan(decoded), np.isnan(values))
    assert np.array_equal(np.signbit(decoded), np.signbit(values))
    assert np.array_equal(decoded[2:], values[2:])


@pytest.mark.sampled
@pytest.mark.parametrize(
    "codec", [v for c in VALUE for v in variants(c) if not c.carries_nonfinite], ids=repr
)
def test_nonfinite_values_that_are_refused(codec: Any, dtype: np.dtype[Any]) -> None:
    for bad in (np.nan, np.inf, -np.inf):
        x = np.zeros(1000)
        x[[3, 700, 800]] = 1.0, bad, bad
        with pytest.raises(wc.EncodeError, match=r"tensor 'w', element 700: .* cannot carry") as caught:
            wc.encode_many({"w": x.astype(dtype)}, wc.Scheme(wc.selectors.NonZero(), wc.codecs.Rice(), codec))
        assert (caught.value.tensor, caught.value.position) == ("w", 700)


@pytest.mark.parametrize("codec", [v for c in VALUE for v in variants(c)], ids=repr)
def test_same_input_same_bytes(codec: Any, rng: np.random.Generator) -> None:
    x = rng.normal(size=3000).astype(np.float32)
    scheme = wc.Scheme(wc.selectors.TopK(0.3), wc.codecs.Rice(), codec)
    first = wc.encode(x, scheme, seed=11)
    strided = np.empty((3000, 2), np.float32)[:, 0]
    strided[...] = x
    assert np.array_equal(first, wc.encode(x.copy(), scheme, seed=11))
    assert np.array_equal(first, wc.encode(strided, scheme, seed=11))
    assert np.array_equal(first, wc.encode(x.astype(">f4"), scheme, seed=11))


SCHEMES = {
    **{repr(i): wc.Scheme(wc.selectors.NonZero(), i, wc.codecs.Raw()) for c in INDEX for i in variants(c)},
    **{repr(v): wc.Scheme(wc.selectors.NonZero(), wc.codecs.Rice(), v) for c in VALUE for v in variants(c)},
}
SMALL = [*SCHEMES, "many", "fused"]


@cache
def small_blobs() -> dict[str, bytes]:
    """Encode a container with every pair of codecs, small enough to flip each bit."""
    rng = np.random.default_rng(3)
    x = np.where(rng.random(90) < 0.3, rng.normal(size=90), 0).astype(np.float32)
    blobs = {name: wc.encode(x, scheme, tag=b"t").tobytes() for name, scheme in SCHEMES.items()}
    tensors = {
        "b": x[:6].reshape(2, 3),
        "a": x,
        "ü": np.float32(1).reshape(()),
        "none": np.empty(0, np.float32),
    }
    blobs["many"] = wc.encode_many(tensors, "nonzero | rice | raw").tobytes()
    blobs["fused"] = wc.encode_many(tensors, "nonzero | bitmap | qsgd", fuse=100).tobytes()
    return blobs


@pytest.mark.sampled(20)
@pytest.mark.parametrize("name", SMALL)
def test_every_prefix_is_truncated(name: str) -> None:
    blob = small_blobs()[name]
    for n in range(len(blob)):
        with pytest.raises(wc.Truncated):
            wc.decode_many(blob[:n])


CHECKSUMS = {"head-checksum", "entry-checksum"}
BEFORE_THE_CHECKSUM = {
    *("magic", "major", "flags", "max-bytes", "total-length", "container", "trailing"),
    *("max-entries", "table-length", "extension-length"),
}


@pytest.mark.sampled(20)
@pytest.mark.parametrize("name", SMALL)
def test_flipped_bits_are_refused(name: str) -> None:
    """Flip every ninth bit; test_flips.py flips all bits of golden containers."""
    blob = small_blobs()[name]
    for bit in range(len(blob) % 9, 8 * len(blob), 9):
        wrong = bytearray(blob)
        wrong[bit // 8] ^= 1 << bit % 8
        with pytest.raises(wc.WireError) as caught:
            wc.decode_many(wrong)
        assert caught.value.code in CHECKSUMS | BEFORE_THE_CHECKSUM, bit


def head_bytes(blob: bytes) -> int:
    """Return the offset of the payload, after prefix, table and extension block."""
    (entries,) = struct.unpack_from("<I", blob, 8)
    end = 24 + 40 * entries
    return end + (int.from_bytes(blob[end : end + 4], "little") if blob[6] & 1 else 0)


AT_MOST = 160
"""Number of bits flipped per payload; few, because the reference decoder is slow."""


@pytest.mark.sampled(20)
@pytest.mark.parametrize("name", SMALL)
def test_flipped_bits_under_right_checksums(name: str) -> None:
    """Any typed error or a legal decode, and the reference decoder agrees which.

    Heads are alike for all codecs, so each bit of a head is tried in three containers.
    """
    blob = small_blobs()[name]
    whole = name in (SMALL[0], "many", "fused")
    payload = range(8 * head_bytes(blob), 8 * len(blob))
    some = sorted(np.random.default_rng(5).permutation(payload)[:AT_MOST].tolist())
    for bit in range(8 * len(blob)) if whole else some:
        wrong = bytearray(blob)
        wrong[bit // 8] ^= 1 << bit % 8
        sealed = reference.reseal(bytes(wrong))
        assert outcome_of_library(sealed) == outcome_of_reference(sealed), bit


def outcome_of_library(blob: bytes) -> Any:
    try:
        tensors = wc.decode_many(blob)
    except wc.WireError as error:
        return type(error).__name__, error.code
    return [(n, t.shape, t.dtype.name, t.indices.tolist(), t.values.tobytes()) for n, t in tensors.items()]


def outcome_of_reference(blob: bytes) -> Any:
    try:
        decoded = reference.decode(blob, zstd=find_decompressor())
    except reference.WireError as error:
        return type(error).__name__, error.code
    return [(t.name, t.shape, t.dtype, list(t.indices), t.values) for t in decoded.tensors]


@pytest.mark.parametrize("cls", [*INDEX, *VALUE], ids=lambda c: c.name)
def test_codecs_are_frozen_values(cls: Any) -> None:
    assert cls() == cls()
    assert hash(cls()) == hash(cls())
    assert isinstance(cls(), wc.IndexCodec if cls in INDEX else wc.ValueCodec)
    assert dataclasses.is_dataclass(cls)
    with pytest.raises(dataclasses.FrozenInstanceError):
        cls().anything = 1


def test_bfloat16_is_ml_dtypes() -> None:
    x = np.array([1.5, -2.0], ml_dtypes.bfloat16)
    assert wc.decode(wc.encode(x)).dtype == ml_dtypes.bfloat16
