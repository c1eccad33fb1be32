"""Integers, bool, float8 and complex: the element types that lossless codecs alone carry (format 1.1)."""

from __future__ import annotations

import io
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import wirecodec as wc
from formats import reference
from formats.reference.element_types import RECORD_TYPES
from wirecodec.cli.main import main
from wirecodec.element_types import ELEMENT_DTYPES, OF_ML_DTYPES, RECORD_DTYPES, element_dtype_named, name_of

TYPES = [pytest.param(dtype, id=name_of(dtype)) for dtype in RECORD_DTYPES.values()]
SCHEMES = (
    None,
    "all | raw-index | raw",
    "all | bitmap | deflate",
    "nonzero | rice | zstd",
    "nonzero | auto-index | deflate(shuffle=False)",
    "nonzero | bloom(policy=p0, fpr=0.1) | raw",
)


def draw(dtype: Any, size: int = 300) -> Any:
    """Return an array of any bits, most of them 0."""
    rng = np.random.default_rng(size)
    bits = rng.integers(0, 256, (size, dtype.itemsize), np.uint8)
    if dtype == np.bool_:
        bits &= 1
    bits[rng.random(size) < 0.7] = 0
    return bits.reshape(-1).view(dtype)


def test_types_are_those_of_the_standard() -> None:
    assert {n: (name_of(dtype), dtype.itemsize) for n, dtype in RECORD_DTYPES.items()} == {
        t.number: (t.name, t.itemsize) for t in RECORD_TYPES
    }


@pytest.mark.parametrize("dtype", TYPES)
def test_bits_are_kept(dtype: Any) -> None:
    """The bytes of the dense array are the oracle; the reference decoder reads the same."""
    x = draw(dtype).reshape(3, 100)
    present = [i for i in range(x.size) if x.tobytes()[i * dtype.itemsize :][: dtype.itemsize].strip(b"\0")]
    for scheme in SCHEMES:
        blob = wc.encode(x, scheme, tag=b"tag")
        assert blob.nbytes <= wc.max_encoded_bytes(x.shape, dtype, scheme) + 16, scheme  # record of the tag
        tensor = wc.decode(blob, schema=(x.shape, name_of(dtype)))
        assert (tensor.dtype, tensor.shape) == (dtype, x.shape)
        assert tensor.to_dense().tobytes() == x.tobytes(), scheme
        (read,) = reference.decode(blob.tobytes()).tensors if "zstd" not in str(scheme) else (None,)
        assert read is None or (read.dtype, list(read.indices)) == (name_of(dtype), tensor.indices.tolist())
        info = wc.inspect(blob)
        assert (info.version, info.entries[0].dtype) == ("1.1", name_of(dtype))
    assert wc.decode(wc.encode(x)).indices.tolist() == present


@pytest.mark.parametrize("fuse", [0, 1000])
def test_many_tensors_of_all_types(fuse: int) -> None:
    model = {f"{name_of(dtype)}/{n}": draw(dtype, 20 + n) for dtype in ELEMENT_DTYPES for n in range(12)}
    for scheme in ("nonzero | rice | raw", "all | raw-index | deflate"):
        blob = wc.encode_many(model, scheme, fuse=fuse)
        schema = {name: (x.shape, x.dtype) for name, x in model.items()}
        found = wc.decode_many(blob, schema=schema)
        assert {name: (x.dtype, x.to_dense().tobytes()) for name, x in found.items()} == {
            name: (x.dtype, x.tobytes()) for name, x in model.items()
        }
        assert [t.name for t in reference.decode(blob.tobytes()).tensors] == sorted(model)
        assert len(wc.inspect(blob).entries) == (len(ELEMENT_DTYPES) if fuse else len(model))


def test_bytes_by_hand() -> None:
    """Two of five int16, in a container whose bytes are written here."""
    blob = wc.encode(np.array([0, 258, 0, -1, 0], np.int16), "nonzero | raw-index | raw").tobytes()
    assert blob[4:8] == b"\1\1\1\0"  # version 1.1, an extension block
    assert blob[24:28] == bytes(4)
    assert blob[32:64] == struct.pack("<Q5I4B", 0, 5, 2, 4, 4, 0, 14, 1, 1, 0)
    assert blob[64:88] == struct.pack("<IIHHIIHH", 24, 1, 6, 1, 8, 0, 17, 0)
    assert blob[88:] == b"\1\0\3\0" + bytes(4) + b"\2\1\xff\xff" + bytes(4)


def test_floats_are_written_as_in_version_1_0() -> None:
    for dtype in ELEMENT_DTYPES[:4]:
        assert wc.inspect(wc.encode(np.ones(3, np.float32).astype(dtype))).version == "1.0"


@pytest.mark.parametrize(
    ("scheme", "name"),
    [
        ("topk(0.5) | rice | raw", "topk"),
        ("randomk(0.5) | rice | raw", "randomk"),
        ("threshold(0.5) | rice | raw", "threshold"),
        ("nonzero | rice | qsgd", "qsgd"),
        ("nonzero | rice | auto-value", "auto-value"),
        ("nonzero | rice | raw(dtype=float16)", "raw"),
        ("dct | all | rice | raw", "dct"),
    ],
)
def test_other_stages_refuse_them(scheme: str, name: str) -> None:
    for dtype in RECORD_DTYPES.values():
        x = np.zeros(4, dtype)
        encoders: tuple[Callable[[], Any], ...] = (
            lambda x=x: wc.encode(x, scheme),
            lambda x=x: wc.encode(wc.SparseTensor.from_dense(x), scheme),
            lambda x=x: wc.encode_many({"w": x}, scheme),
            lambda x=x: wc.max_encoded_bytes(x.shape, x.dtype, scheme),
        )
        for encode in encoders:
            with pytest.raises(
                wc.EncodeError, match=f"{name} (does not carry {name_of(dtype)}; use|spreads)"
            ):
                encode()


@pytest.mark.parametrize("dtype", TYPES)
def test_they_are_not_cast_to_floats(dtype: Any) -> None:
    x = np.ones(6, np.uint8).astype(dtype)
    blob, total = wc.encode(x), np.zeros(6, np.float32)
    with pytest.raises(wc.Unsupported, match=f"only floats .* are added; tensor 0 is {name_of(dtype)}"):
        wc.decode_add(blob, total)
    with pytest.raises(wc.Unsupported, match="only floats"):
        wc.decode_add(wc.encode_many({"w": x}), {"w": total})
    with pytest.raises(ValueError, match="only floats"):
        wc.decode(blob).add_to(total)
    assert not total.any()
    for compressor in (wc.Compressor("nonzero | rice | raw"), wc.Compressor(None, feedback=None)):
        with pytest.raises(wc.EncodeError, match=f"tensor 'w': dtype {name_of(dtype)} is not carried"):
            compressor.compress({"w": x})
    with pytest.raises(wc.SchemaMismatch) as caught:
        wc.decode(blob, schema=(6, np.float32))
    assert caught.value.code == "schema-dtype"


def test_to_dense_into_an_array_that_cannot_hold_the_values() -> None:
    big = wc.SparseTensor([1], np.array([2**24 + 1]), 3)
    with pytest.raises(ValueError, match="does not hold all values of int64"):
        big.to_dense(np.zeros(3, np.float32))
    small = wc.SparseTensor([1], np.array([7], np.int8), 3)
    assert small.to_dense(np.ones(3, np.float32)).tolist() == [0, 7, 0]


@pytest.mark.parametrize("dtype", TYPES)
def test_to_dense_into_an_array_of_the_type(dtype: Any) -> None:
    """Elements that are not present get zero bits, of which 2^-127 of float8_e8m0fnu is no zero."""
    x, out = draw(dtype), np.ones(300, np.uint8).astype(bool).repeat(dtype.itemsize).view(dtype)
    tensor = wc.decode(wc.encode(x))
    assert tensor.to_dense(out).tobytes() == x.tobytes()
    assert name_of(dtype) in repr(tensor)
    if dtype in OF_ML_DTYPES.values():
        wide = tensor.to_dense(np.ones(300, np.float32))
        assert wide.tobytes() == x.astype(np.float32).tobytes()


def test_bools_of_other_bytes_become_0_and_1() -> None:
    x = np.array([0, 2, 1, 255], np.uint8).view(np.bool_)
    assert wc.decode(wc.encode(x)).values.view(np.uint8).tolist() == [1, 1, 1]


def test_other_byte_orders_and_layouts() -> None:
    x = np.arange(12).reshape(3, 4)
    for given in (x.astype(">i8"), np.asfortranarray(x), np.repeat(x, 2, axis=1)[:, ::2]):
        assert wc.decode(wc.encode(given)).to_dense().tolist() == x.tolist()


def test_torch_and_scipy() -> None:
    torch = pytest.importorskip("torch", reason="torch is not installed; `pip install torch` runs this test")
    for dtype in RECORD_DTYPES.values():
        kind = getattr(torch, name_of(dtype), None)
        if kind is None:
            continue
        assert element_dtype_named(kind) == dtype
        x = draw(dtype)
        given = torch.from_numpy(x.view(np.uint8)).view(kind)
        assert wc.decode(wc.encode(given)).to_dense().tobytes() == x.tobytes()
        assert wc.decode(wc.encode(given[::2])).to_dense().tobytes() == x[::2].tobytes()
    sparse = torch.tensor([0, 5, 0]).to_sparse()
    assert wc.decode(wc.encode(sparse)).to_dense().tolist() == [0, 5, 0]


def test_a_matrix_of_scipy() -> None:
    scipy = pytest.importorskip("scipy.sparse", reason="scipy is not installed")
    x = scipy.csr_matrix(np.array([[0, 3], [0, 0]], np.int32))
    assert wc.decode(wc.encode(x)).to_dense().tolist() == [[0, 3], [0, 0]]


def test_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arrays = {"i": np.array([0, 5, -3]), "b": np.array([True, False]), "c": np.array([0, 1j], "c8")}
    np.savez(tmp_path / "x.npz", **arrays)
    source, blob, back = (str(tmp_path / name) for name in ("x.npz", "x.wc", "y.npz"))
    assert main(["encode", source, "-o", blob]) == 0
    assert main(["inspect", blob]) == 0
    page = capsys.readouterr().out
    assert "\nwirecodec 1.1, " in page
    assert "complex64" in page
    assert main(["decode", blob, "-o", back]) == 0
    with np.load(back) as found:
        assert {name: found[name].tobytes() for name in found} == {n: x.tobytes() for n, x in arrays.items()}
    tiny = np.array([0, 1.5, -0.75], np.float32).astype(ml_dtypes.float8_e4m3fn)
    Path(blob).write_bytes(wc.encode(tiny).tobytes())
    assert main(["decode", blob, "-o", str(tmp_path / "z.npy")]) == 0
    assert np.load(tmp_path / "z.npy").tolist() == [0, 1.5, -0.75]


def test_a_hostile_record_is_cheap() -> None:
    """Entries of no elements, each with a group of its own, are checked in linear time."""
    n = 30_000
    rows = [reference.Row(2 * key, 0, 0, 0, 14, 1, 1) for key in range(n)]
    groups = struct.pack("<II", n, 0) + b"".join(
        struct.pack("<6I", 2 * key, 2, 2 * key, 0, 2 * key + 1, 0) for key in range(n)
    )
    types = b"".join(struct.pack("<IHH", key, 16, 0) for key in range(2 * n))
    records = [reference.Record(1, 1, groups), reference.Record(6, 1, types)]
    data = reference.assemble(rows, block_of(records), minor=1)
    tensors = wc.decode_many(data)
    assert len(tensors) == 2 * n
    assert all(tensor.dtype == np.int8 for tensor in tensors.values())
    assert len(list(wc.iter_blobs(io.BytesIO(data)))) == 1


def block_of(records: list[reference.Record]) -> bytes:
    """Return an extension block of records whose bodies are multiples of 8 bytes."""
    body = b"".join(struct.pack("<HHI", r.type, r.flags, len(r.body)) + r.body for r in records)
    return struct.pack("<II", 8 + len(body), len(records)) + body
