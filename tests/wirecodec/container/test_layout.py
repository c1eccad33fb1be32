"""The container's layout and limits, field by field, and what a head alone tells."""

from __future__ import annotations

import io
import pickle
import re
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import wirecodec as wc
from formats.reference import reseal

FORMATS = Path(__file__).parents[3] / "formats"
X = np.array([0, 1.5, 0, -2, 0, 0, 0.25, 0], np.float32)


def test_the_smallest_container_byte_for_byte() -> None:
    blob = wc.encode(X, "nonzero | bitmap | raw").tobytes()
    payload = bytes([0b01001010]) + bytes(7) + X[[1, 3, 6]].tobytes() + bytes(4)
    import zlib

    entry = struct.pack("<IIQIIIIIBBBB", 0, zlib.crc32(payload), 0, 8, 3, 1, 12, 0, 1, 2, 1, 0)
    front = b"\xf7WC\x1a" + struct.pack("<BBHI", 1, 0, 0, 1)
    total = struct.pack("<Q", 24 + 40 + 24)
    crc = struct.pack("<I", zlib.crc32(front + total + entry))
    assert blob == front + crc + total + entry + payload
    section = (FORMATS / "SPEC.md").read_text().partition("## 8. An example")[2]
    rows = re.findall(r"^ +\d+  ((?:[0-9A-F]{2} )*[0-9A-F]{2}) ", section, re.MULTILINE)
    assert bytes.fromhex("".join(rows)) == blob


def test_framing_of_one_tensor_is_at_most_80_bytes(rng: np.random.Generator) -> None:
    for n in (1, 10, 1000, 100_001):
        x = rng.normal(size=n).astype(np.float32)
        info = wc.inspect(wc.encode(x, "topk(0.3) | rice | raw"))
        assert info.nbytes - info.entries[0].index_bytes - info.entries[0].value_bytes <= 80


def resnet50() -> dict[str, tuple[int, ...]]:
    """The names and shapes of ResNet-50's 161 tensors, 25.6M elements."""
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


def test_inspect_needs_the_head_alone() -> None:
    tensors = {"b": X.reshape(2, 4), "a": np.zeros((), np.float64), "c": np.empty(0, np.float16)}
    blob = wc.encode_many(tensors, "nonzero | rice | raw", tag=b"step 7")
    info = wc.inspect(blob)
    head = info.nbytes - 8 - 16  # the one index section, the one value section
    assert wc.inspect(blob[:head]) == info
    with pytest.raises(wc.Truncated):
        wc.inspect(blob[: head - 1])
    assert (info.version, info.nbytes, info.tag) == ("1.0", blob.size, b"step 7")
    assert [(e.name, e.shape, e.size, e.nnz, e.dtype) for e in info.entries] == [
        ("a", (), 1, 0, "float64"),
        ("b", (2, 4), 8, 3, "float32"),
        ("c", (0,), 0, 0, "float16"),
    ]
    assert (info.entries[1].index, info.entries[1].value) == ("rice", "raw")
    assert (info.entries[1].index_bytes, info.entries[1].value_bytes) == (8, 12)


def test_inspect_of_fused_and_unnamed() -> None:
    blob = wc.encode_many({"a": X, "b": X[:3]}, "nonzero | rice | raw", fuse=100, names=False)
    (entry,) = wc.inspect(blob).entries
    assert (entry.name, entry.members, entry.size, entry.nnz) == ("0, 1", (("0", 8), ("1", 3)), 11, 4)


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


def test_members_of_fused_entries_are_bounded_as_entries_are() -> None:
    tensors = {f"{n:02}": X for n in range(12)}
    blob = wc.encode_many(tensors, fuse=100)
    assert len(wc.inspect(blob).entries) == 1
    assert len(wc.decode_many(blob, limits=wc.DecodeLimits(max_entries=12))) == 12
    for read in (wc.decode_many, wc.decode, lambda b, limits: wc.decode_add(b, {}, limits=limits)):
        with pytest.raises(wc.LimitExceeded, match="max-entries"):
            read(blob, limits=wc.DecodeLimits(max_entries=11))


def test_what_has_no_names_is_added_under_the_names_that_it_is_given() -> None:
    """\"10\" stands before "2": digits of one length ascend as the keys do."""
    tensors = {f"layer{n:02}": np.full(1 + n % 3, n, np.float32) for n in range(12)}
    blob = wc.encode_many(tensors, "all | rice | raw", names=False)
    decoded = wc.decode_many(blob)
    assert list(decoded) == sorted(decoded) == [entry.name for entry in wc.inspect(blob).entries]
    out = {name: np.zeros(tensor.shape, np.float32) for name, tensor in decoded.items()}
    wc.decode_add(blob, out)
    assert [x.tolist() for x in out.values()] == [x.tolist() for x in tensors.values()]


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


def test_streams() -> None:
    blobs = [wc.encode(X * i, tag=bytes([i + 1])) for i in range(4)]
    whole = b"".join(b.tobytes() for b in blobs)
    assert wc.blob_size(whole[:24]) == blobs[0].size
    for source in (whole, np.frombuffer(whole, np.uint8), io.BytesIO(whole)):
        assert [bytes(b) for b in wc.iter_blobs(source)] == [bytes(b) for b in blobs]
    for cut in (1, 30):
        for source in (whole[:-cut], io.BytesIO(whole[:-cut]), whole + bytes(cut % 24)):
            with pytest.raises(wc.WireError):
                list(wc.iter_blobs(source))
    with pytest.raises(wc.LimitExceeded):
        list(wc.iter_blobs(io.BytesIO(whole), limits=wc.DecodeLimits(max_bytes=64)))
    huge = bytearray(whole)
    huge[16:24] = struct.pack("<Q", 2**63)
    with pytest.raises(wc.LimitExceeded):
        next(wc.iter_blobs(io.BytesIO(huge)))
    assert list(wc.iter_blobs(b"")) == list(wc.iter_blobs(io.BytesIO())) == []


@pytest.mark.parametrize(
    ("limit", "code"),
    [
        ({"max_bytes": 100}, "max-bytes"),
        ({"max_entries": 1}, "max-entries"),
        ({"max_elements": 5}, "max-elements"),
        ({"max_dense": 15}, "max-dense"),
        ({"max_expansion": 0}, "max-expansion"),
    ],
)
def test_limits(limit: dict[str, int], code: str) -> None:
    blob = wc.encode_many({"a": X, "b": X})
    with pytest.raises(wc.LimitExceeded) as caught:
        wc.decode_many(blob, limits=wc.DecodeLimits(**limit))
    assert caught.value.code == code
    schema = {"a": ((8,), "float32"), "b": ((8,), "float32")}
    if code == "max-expansion":
        assert len(wc.decode_many(blob, limits=wc.DecodeLimits(**limit), schema=schema)) == 2


def test_limits_are_counts() -> None:
    for wrong in (-1, 1.5, True, None):
        with pytest.raises(ValueError, match="max_work"):
            wc.DecodeLimits(max_work=wrong)


def test_to_dense_keeps_the_limit_it_was_decoded_under() -> None:
    sparse = wc.SparseTensor([3], np.ones(1, np.float32), (2**30,))
    blob = wc.encode(sparse, "all | rice | raw")
    with pytest.raises(wc.LimitExceeded):
        wc.decode(blob, limits=wc.DecodeLimits(max_dense=2**20))
    lowered = wc.decode(blob, limits=wc.DecodeLimits(max_dense=2**30))
    assert lowered.nnz == 1
    tensor = wc.SparseTensor([3], np.ones(1, np.float32), (2**33,))
    with pytest.raises(wc.LimitExceeded):
        tensor.to_dense()


@pytest.mark.parametrize(
    ("schema", "code"),
    [
        ({"a": ((8,), "float32")}, "schema-names"),
        ({"a": ((8,), "float32"), "c": ((2, 4), "float32")}, "schema-names"),
        ({"a": ((8,), "float32"), "b": ((4, 2), "float32")}, "schema-shape"),
        ({"a": ((9,), "float64"), "b": ((2, 4), "float32")}, "schema-shape"),
        ({"a": (8, "float16"), "b": ((2, 4), "float32")}, "schema-dtype"),
    ],
)
def test_schemas(schema: Any, code: str) -> None:
    blob = wc.encode_many({"a": X, "b": X.reshape(2, 4)})
    with pytest.raises(wc.SchemaMismatch) as caught:
        wc.decode_many(blob, schema=schema)
    assert caught.value.code == code


def test_decode_wants_exactly_one() -> None:
    for tensors in ({}, {"a": X, "b": X}):
        blob = wc.encode_many(tensors)
        assert len(wc.decode_many(blob)) == len(tensors)
        with pytest.raises(wc.SchemaMismatch, match="schema-count"):
            wc.decode(blob)
    assert wc.decode(wc.encode_many({"a": X}), schema=(8, np.float32)).nnz == 3
    with pytest.raises(wc.SchemaMismatch, match="schema-dtype"):
        wc.decode(wc.encode(X), schema=((8,), "bfloat16"))


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


def test_errors_survive_pickling() -> None:
    error = wc.Malformed("magic", "wrong", offset=3, entry=4)
    again = pickle.loads(pickle.dumps(error))
    assert (type(again), str(again), again.code, again.offset, again.entry) == (
        wc.Malformed,
        "magic: wrong (entry 4, byte 3)",
        "magic",
        3,
        4,
    )
    refused = pickle.loads(pickle.dumps(wc.EncodeError("no", tensor="w", position=2)))
    assert str(refused) == "tensor 'w', element 2: no"


def test_seeds_keys_and_bases_change_the_draws(rng: np.random.Generator) -> None:
    x = rng.normal(size=2000).astype(np.float32)
    scheme = "all | raw-index | qsgd(bits=2)"
    blobs = {wc.encode(x, scheme, seed=s).tobytes() for s in (0, 1, 2**64 - 1)}
    assert len(blobs) == 3
    both = wc.decode_many(wc.encode_many({"a": x, "b": x}, scheme))
    assert not np.array_equal(both["a"].values, both["b"].values)


def test_qsgd_is_unbiased_and_bounded(rng: np.random.Generator) -> None:
    x = rng.laplace(size=1024).astype(np.float32)
    step = np.repeat(np.abs(x).reshape(2, 512).max(1), 512) / 7
    total = np.zeros(1024)
    n = 3000
    for seed in range(n):
        y = wc.decode(wc.encode(x, "all | raw-index | qsgd(bits=4)", seed=seed)).values
        assert (np.abs(y - x) <= step * 1.0001).all()
        total += y
    error = (total / n - x) / (step / 2 / np.sqrt(n))  # a rounding's deviation is at most half a step
    assert np.abs(error).max() < 5.5
    assert abs(error.mean()) < 0.2
