"""Metadata, patches, digests and private records: bytes by hand, and what users see of them."""

from __future__ import annotations

import hashlib
import pickle
import struct
import zlib
from typing import Any

import numpy as np
import pytest

import wirecodec as wc
from formats.reference import Record, Row, assemble, decode
from formats.reference.annotations import CONTAINER
from formats.reference.writing.assembly import write_extension_block
from formats.reference.writing.records import write_meta

X = np.array([0, 1.5, 0, -2], np.float32)


def records_of(blob: bytes) -> dict[int, tuple[int, bytes]]:
    """Return {type: (flags, body)} of a container, by the offsets of SPEC sections 2.1 to 2.3."""
    (n,) = struct.unpack_from("<I", blob, 8)
    at, found = 24 + 40 * n + 8, {}
    for _ in range(struct.unpack_from("<I", blob, at - 4)[0]):
        kind, flags, length = struct.unpack_from("<HHI", blob, at)
        found[kind] = flags, blob[at + 8 : at + 8 + length]
        at += 8 + length + -length % 8
    return found


def test_metadata_by_hand() -> None:
    blob = wc.encode_many(
        {"w": X, "b": X}, meta={"step": "12", "é": ""}, tensor_meta={"w": {"unit": "m"}}, tag=b"t"
    ).tobytes()
    rows = struct.pack("<9I", 1, 4, 1, 0xFFFFFFFF, 4, 2, 0xFFFFFFFF, 2, 0)
    assert records_of(blob)[7] == (0, struct.pack("<I", 3) + rows + b"unitm" + b"step12" + "é".encode())
    assert sorted(records_of(blob)) == [2, 5, 7]
    assert (blob[4], blob[5], struct.unpack_from("<Q", blob, 16)[0]) == (1, 1, len(blob))
    (n,) = struct.unpack_from("<I", blob, 8)
    stop = 24 + 40 * n + struct.unpack_from("<I", blob, 24 + 40 * n)[0]
    assert struct.unpack_from("<I", blob, 12)[0] == zlib.crc32(blob[:12] + blob[16:stop])
    info = wc.inspect(blob)
    assert (info.meta, info.tensor_meta, info.tag) == ({"step": "12", "é": ""}, {"w": {"unit": "m"}}, b"t")
    assert [x.to_dense().tolist() for x in wc.decode_many(blob).values()] == [X.tolist()] * 2


def test_nothing_of_version_1_1_leaves_the_bytes_as_they_are() -> None:
    plain = wc.encode(X)
    assert plain[5] == 0
    assert bytes(wc.encode(X, meta={}, absent="zero")) == bytes(plain)
    many = bytes(wc.encode_many({"w": X}))
    assert bytes(wc.encode_many({"w": X}, meta={}, tensor_meta={}, absent="zero", records={})) == many


def test_a_patch_replaces_and_is_not_added() -> None:
    patch = wc.SparseTensor([1, 3], np.array([0, 7], "f4"), (2, 2), absent="unchanged")
    blob = wc.encode(patch)
    assert records_of(blob.tobytes())[9] == (1, struct.pack("<II", 0, 1))
    tensor = wc.decode(blob)
    assert (tensor.absent, tensor.nnz) == ("unchanged", 2)  # the stored zero is an element of the patch
    assert "absent='unchanged'" in repr(tensor)
    assert pickle.loads(pickle.dumps(tensor)).absent == "unchanged"
    assert tensor.to_dense(out=np.full((2, 2), 5, "f4")).tolist() == [[5, 0], [5, 7]]
    across = np.full((2, 4), 5, "f4")[:, ::2]
    assert tensor.to_dense(out=across).tolist() == [[5, 0], [5, 7]]
    total = np.ones(4, np.float32)
    for use in (
        tensor.to_dense,
        lambda: np.asarray(tensor),
        lambda: tensor.add_to(total),
        lambda: wc.decode_add(blob, total),
        lambda: wc.decode_add([wc.encode(np.ones(4, "f4")), blob], total),
    ):
        with pytest.raises(wc.SchemaMismatch, match="patch") as raised:
            use()
        assert raised.value.code == "patch"
    assert total.tolist() == [1, 1, 1, 1]
    assert wc.decode(wc.encode(tensor)).absent == "unchanged"
    assert wc.decode(wc.encode(tensor, absent="zero")).absent == "zero"


def test_patches_among_other_tensors() -> None:
    blob = wc.encode_many({"a": X, "b": X, "c": X}, absent={"[ac]": "unchanged"}, fuse=8)
    assert {name: x.absent for name, x in wc.decode_many(blob).items()} == {
        "a": "unchanged",
        "b": "zero",
        "c": "unchanged",
    }
    assert wc.inspect(blob).patches == ("a", "c")
    with pytest.raises(wc.SchemaMismatch, match="'a' is a patch"):
        wc.decode_add(blob, {name: np.ones(4, "f4") for name in "abc"})


@pytest.mark.parametrize(
    ("scheme", "message"),
    [
        ("dct | all | rice | raw", "transform"),
        ("all | bloom | raw", "bloom"),
        ("topk(k=4) | rice | raw", "topk"),
    ],
)
def test_schemes_that_would_change_other_elements(scheme: str, message: str) -> None:
    patch = wc.SparseTensor([1], np.array([7], "f4"), 100, absent="unchanged")
    with pytest.raises(wc.EncodeError, match=message):
        wc.encode(patch, scheme)
    with pytest.raises(wc.EncodeError, match="'w'"):
        wc.encode_many({"w": patch}, scheme)


def test_a_compressor_takes_no_patch() -> None:
    patch = wc.SparseTensor([1], np.array([7], "f4"), 4, absent="unchanged")
    with pytest.raises(wc.EncodeError, match="patch"):
        wc.Compressor("all | rice | raw").compress({"w": patch})


def test_the_digest_by_hand() -> None:
    blob = wc.encode_many({"w": X.reshape(2, 2)}, names="digest").tobytes()
    text = bytes.fromhex("01 01000000 01000000 77 01 02 0200000000000000 0200000000000000")
    assert records_of(blob)[8] == (0, hashlib.sha256(text).digest())
    assert 2 not in records_of(blob)
    assert wc.inspect(blob).digest == hashlib.sha256(text).digest()
    right = {"w": ((2, 2), "float32")}
    assert list(wc.decode_many(blob, schema=right)) == ["w"]
    with pytest.raises(wc.SchemaMismatch) as raised:
        wc.decode_many(blob, schema={"v": right["w"]})
    assert raised.value.code == "schema-digest"


def test_private_records() -> None:
    blob = wc.encode_many({"w": X}, records={0x8001: b"ours", 0xFFEF: b"x" * 9})
    assert wc.inspect(blob).version == "1.0"  # private records do not count (SPEC 2.1)
    assert [(r.type, r.body) for r in wc.inspect(blob).records] == [(0x8001, b"ours"), (0xFFEF, b"x" * 9)]
    assert records_of(blob.tobytes())[0x8001] == (0, b"ours")
    assert list(wc.decode_many(blob)) == ["w"]
    for records in ({5: b"tag"}, {0xFFF0: b"x"}, {0x7FFF: b"x"}, {0x8000: b""}):
        with pytest.raises(wc.EncodeError, match="record"):
            wc.encode_many({"w": X}, records=records)


@pytest.mark.parametrize("read", [wc.decode, decode])
def test_a_record_of_type_0_is_unknown(read: Any) -> None:
    """No list has it. A later version may, so no vector does."""
    rows = [Row(0, 0, 4, 0, 1, 1, 1)]
    data = assemble(rows, write_extension_block([Record(0, 0, b"x"), Record(5, 0, b"tag")]))
    read(data)
    assert [(r.type, r.body) for r in wc.inspect(data).records] == [(0, b"x")]
    with pytest.raises(Exception, match="extension") as raised:
        read(assemble(rows, write_extension_block([Record(0, 1, b"x")])))
    assert type(raised.value).__name__ == "Unsupported"


def test_arguments_that_no_record_can_hold() -> None:
    with pytest.raises(wc.EncodeError, match="empty"):
        wc.encode(X, meta={"": "x"})
    with pytest.raises(wc.EncodeError, match="metadata"):
        wc.encode(X, meta={"a": "\udc80"})
    with pytest.raises(wc.EncodeError, match="metadata"):
        wc.encode(X, meta={"a": 3})  # type: ignore[dict-item]
    with pytest.raises(wc.EncodeError, match="65536"):
        wc.encode(X, meta={str(n): "" for n in range(65_537)})
    with pytest.raises(wc.EncodeError, match="'v'"):
        wc.encode_many({"w": X}, tensor_meta={"v": {"a": "b"}})
    with pytest.raises(wc.EncodeError, match="unchanged"):
        wc.encode(X, absent="kept")


def test_the_largest_metadata() -> None:
    meta = {f"{n:05}": "" for n in range(65_536)}
    assert wc.inspect(wc.encode(X, meta=meta)).meta == meta


@pytest.mark.parametrize("read", [wc.decode, decode])
@pytest.mark.parametrize("surplus", [0, 1])
def test_one_row_of_metadata_more_than_the_most(read: Any, surplus: int) -> None:
    """The record is sound but for its count. No vector has so many rows."""
    rows = [(CONTAINER, f"{n:05}".encode(), b"") for n in range(65_536 + surplus)]
    block = write_extension_block([Record(7, 0, write_meta(rows))])
    data = assemble([Row(0, 0, 4, 0, 1, 1, 1)], block)
    if not surplus:
        read(data)
        return
    with pytest.raises(Exception, match="meta-record") as raised:
        read(data)
    assert type(raised.value).__name__ == "Malformed"


def test_hostile_counts_are_refused_before_any_loop() -> None:
    """Rows and lengths of gigabytes in a record of 2^20 bytes; each is a fault of row 41a."""
    for count in (65_537, 87_381, 2**32 - 1):
        body = struct.pack("<I", count) + bytes(2**20)
        data = assemble([Row(0, 0, 4, 0, 1, 1, 1)], write_extension_block([Record(7, 0, body)]))
        with pytest.raises(wc.Malformed) as raised:
            wc.inspect(data)
        assert raised.value.code == "meta-record"
