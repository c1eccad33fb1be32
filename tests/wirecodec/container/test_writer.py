"""Tests of the containers that are written: their bytes, framing, names, chunks and fused tensors."""

from __future__ import annotations

import re
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import wirecodec as wc
from tests.wirecodec.container.small import X

FORMATS = Path(__file__).parents[3] / "formats"


def test_the_smallest_container_byte_for_byte() -> None:
    blob = wc.encode(X, "nonzero | bitmap | raw").tobytes()
    payload = bytes([0b01001010]) + bytes(7) + X[[1, 3, 6]].tobytes() + bytes(4)
    import zlib

    entry = struct.pack("<IIQIIIIIBBBB", 0, zlib.crc32(payload), 0, 8, 3, 1, 12, 0, 1, 2, 1, 0)
    front = b"\xf7WC\x1a" + struct.pack("<BBHI", 1, 0, 0, 1)
    total = struct.pack("<Q", 24 + 40 + 24)
    crc = struct.pack("<I", zlib.crc32(front + total + entry))
    assert blob == front + crc + total + entry + payload
    section = (FORMATS / "SPEC.md").read_text().partition("## 8. An example")[2].partition("### Records")[0]
    rows = re.findall(r"^ +\d+  ((?:[0-9A-F]{2} )*[0-9A-F]{2}) ", section, re.MULTILINE)
    assert bytes.fromhex("".join(rows)) == blob


def test_framing_of_one_tensor_is_at_most_80_bytes(rng: np.random.Generator) -> None:
    for n in (1, 10, 1000, 100_001):
        x = rng.normal(size=n).astype(np.float32)
        info = wc.inspect(wc.encode(x, "topk(0.3) | rice | raw"))
        assert info.nbytes - info.entries[0].index_bytes - info.entries[0].value_bytes <= 80


def resnet50() -> dict[str, tuple[int, ...]]:
    """Return the names and shapes of ResNet-50's 161 tensors, 25.6M elements."""
    shapes: dict[str, tuple[int, ...]] = {"conv1.weight": (64, 3, 7, 7)}

    def norm(name: str, width: int) -> None:
        shapes[f"{name}.weight"] = shapes[f"{name}.bias"] = (width,)

    norm("bn1", 64)
    inputs = 64
    for layer, (width, blocks) in enumerate(((64, 3), (128, 4), (256, 6), (512, 3)), 1):
        for block in range(blocks):
            name = f"layer{layer}.{block}"
            for n, shape in enumerate(
                ((width, inputs, 1, 1), (width, width, 3, 3), (4 * width, width, 1, 1)), 1
            ):
                shapes[f"{name}.conv{n}.weight"] = shape
                norm(f"{name}.bn{n}", shape[0])
            if block == 0:
                shapes[f"{name}.downsample.0.weight"] = (4 * width, inputs, 1, 1)
                norm(f"{name}.downsample.1", 4 * width)
            inputs = 4 * width
    return {**shapes, "fc.weight": (1000, 2048), "fc.bias": (1000,)}


def test_framing_of_a_model_is_at_most_one_percent() -> None:
    rng = np.random.default_rng(0)
    shapes = resnet50()
    assert len(shapes) == 161
    tensors = {name: rng.standard_normal(shape, np.float32) for name, shape in shapes.items()}
    assert sum(x.size for x in tensors.values()) == 25_557_032
    for options, share in (({}, 0.01), ({"names": False, "fuse": 1024}, 0.004)):
        blob = wc.encode_many(tensors, "topk(0.01) | rice | raw", **options)
        info = wc.inspect(blob)
        sections = sum(e.index_bytes + e.value_bytes for e in info.entries)
        padding = sum(-e.index_bytes % 8 + -e.value_bytes % 8 for e in info.entries)
        assert (info.nbytes - sections - padding) / info.nbytes <= share
        schema = {name: (shape, "float32") for name, shape in shapes.items()}
        assert {n: t.shape for n, t in wc.decode_many(blob, schema=schema).items()} == shapes


def test_names_order_and_absence() -> None:
    tensors = {name: X + i for i, name in enumerate(["z", "ä", "A", "", "a.b", "\U0001f600", "\ue000"])}
    decoded = wc.decode_many(wc.encode_many(tensors))
    assert list(decoded) == sorted(tensors, key=str.encode)
    assert all(np.array_equal(decoded[n].to_dense(), x) for n, x in tensors.items())
    bare = wc.encode_many(tensors, names=False)
    assert list(wc.decode_many(bare)) == [str(i) for i in range(7)]
    named = wc.decode_many(bare, schema=dict.fromkeys(tensors, ((8,), np.float32)))
    assert all(np.array_equal(named[n].to_dense(), x) for n, x in tensors.items())


@pytest.mark.parametrize("name", ["\ud800", 3, None, "x" * 70_000])
def test_names_that_cannot_be_written(name: Any) -> None:
    with pytest.raises(wc.EncodeError):
        wc.encode_many({name: X})


def test_chunks_of_a_large_tensor() -> None:
    n = 2**24 + 1000
    x = np.zeros(n, np.float32)
    where = np.array([0, 5, 2**24 - 1, 2**24, n - 1])
    x[where] = [1, 2, 3, 4, 5]
    for scheme in ("nonzero | rice | raw", "topk(k=5) | bitmap | raw"):
        blob = wc.encode(x, scheme)
        assert wc.inspect(blob).entries[0].chunks == 2
        decoded = wc.decode(blob)
        assert decoded.indices.dtype == np.int32
        assert decoded.indices.tolist() == where.tolist()
        out = np.ones(n, np.float32)
        wc.decode_add(blob, out, scale=-2.0)
        assert np.array_equal(out, 1 - 2 * x)
    dense = wc.decode(wc.encode(x + 1, "all | raw-index | raw"))
    assert dense.is_full
    assert np.array_equal(dense.to_dense(), x + 1)


def test_an_error_in_a_later_chunk_names_the_element() -> None:
    x = np.zeros(2**24 + 1000, np.float32)
    x[2**24 + 7] = np.inf
    with pytest.raises(wc.EncodeError) as caught:
        wc.encode(x, "nonzero | rice | qsgd")
    assert caught.value.position == 2**24 + 7


def test_fused_tensors_come_back(rng: np.random.Generator) -> None:
    tensors = {f"t{i:02}": rng.normal(size=(i, 3)).astype(np.float32) for i in range(20)}
    tensors["half"] = rng.normal(size=9).astype(np.float16)
    tensors["large"] = rng.normal(size=5000).astype(np.float32)
    for scheme in (
        "topk(0.4) | rice | raw",
        "all | raw-index | raw",
        {"t0*": "topk(0.5)|bitmap|raw", "*": None},
    ):
        plain = wc.decode_many(wc.encode_many(tensors, scheme))
        blob = wc.encode_many(tensors, scheme, fuse=1000)
        fused = wc.decode_many(blob)
        assert len(wc.inspect(blob).entries) < 8
        for name in tensors:
            assert fused[name].shape == plain[name].shape
            assert np.array_equal(fused[name].indices, plain[name].indices)
            assert fused[name].values.tobytes() == plain[name].values.tobytes()
            assert fused[name].is_full == plain[name].is_full


def test_errors_in_fused_tensors_name_the_member() -> None:
    tensors = {"a": X, "b": np.array([1, 2, np.nan], np.float32), "c": X}
    with pytest.raises(wc.EncodeError) as caught:
        wc.encode_many(tensors, "nonzero | rice | qsgd", fuse=100)
    assert (caught.value.tensor, caught.value.position) == ("b", 2)
