"""Tests of inputs: every array type is accepted; anything else raises an error with a clear message."""

from __future__ import annotations

import array
import io
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import wirecodec as wc


def same(tensor: Any, expected: Any) -> None:
    decoded = wc.decode(wc.encode(tensor))
    assert decoded.shape == expected.shape
    assert decoded.dtype == expected.dtype.newbyteorder("=")
    assert np.array_equal(decoded.to_dense(), expected, equal_nan=True)


@pytest.mark.sampled
@pytest.mark.parametrize("shape", [(), (0,), (1,), (7,), (3, 4), (0, 3), (2, 3, 4), (1, 1, 1, 5), (2,) * 12])
def test_shapes(shape: tuple[int, ...], dtype: np.dtype[Any], rng: np.random.Generator) -> None:
    x = np.asarray(rng.normal(size=shape)).astype(dtype)
    same(x, x)


def test_layouts(rng: np.random.Generator) -> None:
    x = rng.normal(size=(6, 10)).astype(np.float32)
    for view in (
        x.T,
        x[::2, ::-3],
        np.asfortranarray(x),
        np.broadcast_to(x[0], (4, 10)),
        x.astype(">f4"),
        x[:0],
    ):
        same(view, np.array(view))
    frozen = x.copy()
    frozen.flags.writeable = False
    same(frozen, x)
    raw = bytearray(x.nbytes + 1)
    misaligned = np.frombuffer(memoryview(raw)[1:], np.float32)
    misaligned[...] = x.ravel()
    same(misaligned, x.ravel())


def test_other_array_interfaces(rng: np.random.Generator) -> None:
    same(array.array("f", [1, 0, 2]), np.array([1, 0, 2], np.float32))
    same(memoryview(np.arange(6, dtype=np.float64).reshape(2, 3)), np.arange(6.0).reshape(2, 3))
    same(np.float32(3), np.array(3, np.float32))

    class Interface:
        __array_interface__ = np.arange(4, dtype=np.float32).__array_interface__
        keep = np.arange(4, dtype=np.float32)

    class Packed:
        def __init__(self, x: Any) -> None:
            self.x = x

        def __dlpack__(self, **options: Any) -> Any:
            return self.x.__dlpack__(**options)

        def __dlpack_device__(self) -> Any:
            return self.x.__dlpack_device__()

    source = np.arange(4, dtype=np.float32)
    Interface.__array_interface__ = source.__array_interface__
    same(Interface(), source)
    same(Packed(source), source)


class OnDevice:
    """Array on a device that is not an NVIDIA GPU."""

    def __dlpack_device__(self) -> tuple[int, int]:
        return (10, 0)

    def __dlpack__(self) -> Any:
        raise AssertionError("must not be asked")


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        (np.zeros(3, np.longdouble), "is not carried"),
        (np.zeros(3, np.clongdouble), "is not carried"),
        (np.zeros(3, "M8[s]"), "is not carried"),
        (np.array(["a"]), "not carried"),
        ([1.0, 2.0], "list is not an array"),
        ("text", "str is not an array"),
        (None, "NoneType is not an array"),
        (3.5, "float is not an array"),
        (OnDevice(), "another device"),
        (np.ma.masked_array(np.ones(3), [True, False, False]), "masked"),
    ],
)
def test_invalid_inputs_are_rejected(wrong: Any, says: str) -> None:
    with pytest.raises(wc.EncodeError, match=says):
        wc.encode(wrong)
    with pytest.raises(wc.EncodeError, match="tensor 'w'"):
        wc.encode_many({"w": wrong})


def test_torch_without_torch() -> None:
    torch = pytest.importorskip("torch", reason="torch is not installed; `pip install torch` runs this test")
    x = torch.arange(12, dtype=torch.float32).reshape(3, 4)
    same(x, x.numpy())
    same(x.t(), x.t().numpy())
    same(x.requires_grad_(), x.detach().numpy())
    same(x.to(torch.bfloat16), x.detach().numpy().astype(ml_dtypes.bfloat16))
    same(x.half(), x.detach().numpy().astype(np.float16))
    with pytest.raises(wc.EncodeError, match="layout"):
        wc.encode(x.detach().to_mkldnn())
    blob = torch.from_numpy(np.array(wc.encode(x)))
    assert np.array_equal(wc.decode(blob).to_dense(), x.detach().numpy())
    assert wc.decode(blob, schema=((3, 4), torch.float32)).nnz == 11


@pytest.mark.parametrize(
    "kind", [bytes, bytearray, memoryview, np.array, lambda b: np.frombuffer(b, np.int8), io.BytesIO]
)
def test_any_buffer_decodes(kind: Any) -> None:
    x = np.arange(5, dtype=np.float32)
    blob = kind(wc.encode(x).tobytes())
    blob = blob.getbuffer() if isinstance(blob, io.BytesIO) else blob
    if kind is np.array:
        blob = np.frombuffer(bytes(blob), np.uint8)
    assert np.array_equal(wc.decode(blob).to_dense(), x)


def test_misaligned_and_read_only_buffers_decode(rng: np.random.Generator) -> None:
    x = rng.normal(size=100)
    blob = wc.encode(x, "topk(0.3) | rice | raw").tobytes()
    for shift in range(1, 8):
        view = memoryview(bytes(shift) + blob)[shift:]
        assert np.array_equal(wc.decode(view).values, wc.decode(blob).values)


@pytest.mark.parametrize(
    "wrong",
    [
        None,
        "text",
        7,
        [1, 2],
        np.zeros(100, np.float32),
        np.zeros(100, np.uint8)[::2],
        memoryview(np.zeros(40, np.uint8))[::2],
        memoryview(np.zeros(40, np.float64)),
        np.array([object()]),
    ],
    ids=lambda wrong: type(wrong).__name__,
)
def test_invalid_buffers_are_rejected(wrong: Any) -> None:
    for read in (wc.decode, wc.decode_many, wc.inspect, wc.blob_size):
        with pytest.raises(wc.Malformed) as caught:
            read(wrong)
        assert caught.value.code == "buffer"


def test_sparse_tensor_checks_its_parts() -> None:
    ones = np.ones(2, np.float32)
    for indices, values, shape in (
        ([1, 1], ones, (5,)),
        ([2, 1], ones, (5,)),
        ([-1, 1], ones, (5,)),
        ([1, 5], ones, (5,)),
        ([1], ones, (5,)),
        ([0.5, 1], ones, (5,)),
        ([[0, 1]], ones, (5,)),
        ([0, 1], np.zeros(2, np.longdouble), (5,)),
        ([0, 1], ones, (-5,)),
    ):
        with pytest.raises(wc.EncodeError):
            wc.SparseTensor(indices, values, shape)


def test_sparse_tensor(dtype: np.dtype[Any]) -> None:
    t = wc.SparseTensor([1, 4], np.array([2, -0.0]).astype(dtype), (2, 3))
    assert (t.size, t.nnz, t.shape, t.is_full, t.indices.dtype) == (6, 2, (2, 3), False, np.int32)
    assert t.to_dense().tolist() == [[0, 2, 0], [0, 0, 0]]
    out = np.full((3, 2), 7, dtype).T
    assert t.to_dense(out) is out
    assert out.tolist() == t.to_dense().tolist()
    with pytest.raises(ValueError, match="out has shape"):
        t.to_dense(np.zeros(6, dtype))
    back = wc.SparseTensor.from_dense(t.to_dense())
    assert back.indices.tolist() == [1, 4]
    assert np.signbit(back.values.astype(float)).tolist() == [False, True]
    full = wc.SparseTensor.from_dense(np.ones(3, dtype))
    assert full.is_full
    assert full.indices.tolist() == [0, 1, 2]


def test_large_tensors_have_wide_indices() -> None:
    t = wc.SparseTensor([0, 2**33], np.ones(2, np.float32), (2**34,))
    assert t.indices.dtype == np.int64
    decoded = wc.decode(wc.encode(t, "all | rice | raw"), limits=wc.DecodeLimits(max_dense=2**34))
    assert decoded.indices.tolist() == [0, 2**33]
    assert wc.SparseTensor([0], np.ones(1, np.float32), (2**31,)).indices.dtype == np.int32


def test_sparse_in_dense_in_same_bytes(rng: np.random.Generator) -> None:
    x = np.where(rng.random(5000) < 0.05, rng.normal(size=5000), 0).astype(np.float32)
    sparse = wc.SparseTensor.from_dense(x)
    for scheme in (None, "topk(0.01) | rice | raw", "nonzero | bitmap | qsgd", "topk(0.2) | rice | raw"):
        assert np.array_equal(wc.encode(sparse, scheme), wc.encode(x, scheme))
    stored = wc.SparseTensor([3, 9], np.array([0.0, 1.0], np.float32), (20,))
    assert wc.decode(wc.encode(stored, "all | rice | raw")).indices.tolist() == [3, 9]
    assert wc.decode(wc.encode(stored)).indices.tolist() == [9]


def test_indices_cannot_be_changed_behind_the_checks() -> None:
    given = np.array([1, 3], np.int32)
    t = wc.SparseTensor(given, np.ones(2, np.float32), (5,))
    given[1] = 2**30
    assert t.indices.tolist() == [1, 3]
    for tensor in (t, wc.decode(wc.encode(t)), wc.decode(wc.encode(np.ones(4, np.float32)))):
        with pytest.raises(ValueError, match="read-only"):
            tensor.indices[0] = 2**30


def test_tensors_are_pickled(rng: np.random.Generator) -> None:
    import pickle

    t = wc.decode(wc.encode(rng.normal(size=(5, 6)), "topk(0.2) | rice | raw"))
    for protocol in range(pickle.HIGHEST_PROTOCOL + 1):
        again = pickle.loads(pickle.dumps(t, protocol))
        assert again.shape == (5, 6)
        assert np.array_equal(again.to_dense(), t.to_dense())


def test_more_valid_and_invalid_buffers() -> None:
    import ctypes

    blob = wc.encode(np.ones(3, np.float32)).tobytes()
    assert wc.decode((ctypes.c_ubyte * len(blob)).from_buffer_copy(blob)).nnz == 3
    assert wc.decode(np.frombuffer(blob, np.uint8).reshape(2, -1)).nnz == 3
    released = memoryview(blob)
    released.release()
    for wrong in (released, OnDevice()):
        with pytest.raises(wc.Malformed, match="buffer"):
            wc.decode(wrong)


def test_shapes_that_cannot_be_written() -> None:
    with pytest.raises(wc.EncodeError, match="tensor 'w': shape has 33 dimensions"):
        wc.encode_many({"w": np.ones((1,) * 33, np.float32)})
    giant = wc.SparseTensor([0], np.ones(1, np.float32), (2**46,))
    with pytest.raises(wc.EncodeError, match="no reader takes so many"):
        wc.encode(giant, "all | rice | raw")
    with pytest.raises(wc.EncodeError, match="tensor 'w': this scheme needs the dense tensor"):
        wc.encode_many({"w": giant}, "topk(k=1) | rice | raw")
    with pytest.raises(TypeError):
        wc.SparseTensor([0], np.ones(1, np.float32), (2.5,))


def test_arrays_that_another_thread_writes_to() -> None:
    """Any result or an EncodeError is allowed, but never a write beyond a buffer."""
    import contextlib
    import threading

    x = np.zeros(200_000, np.float32)
    stop = threading.Event()

    def flip() -> None:
        while not stop.is_set():
            x[:] = 1
            x[:] = 0

    writer = threading.Thread(target=flip)
    writer.start()
    try:
        for _ in range(100):
            for scheme in ("nonzero | bitmap | raw", "topk(0.01) | rice | qsgd"):
                with contextlib.suppress(wc.EncodeError):
                    wc.decode(wc.encode(x, scheme))
    finally:
        stop.set()
        writer.join()


def test_numpy_sees_the_dense_tensor() -> None:
    t = wc.SparseTensor([1], np.array([2.0], np.float32), (2, 2))
    assert np.asarray(t).tolist() == [[0, 2], [0, 0]]
    assert np.asarray(t, dtype=np.float64).dtype == np.float64
    assert np.add(t, 1).tolist() == [[1, 3], [1, 1]]


def test_encode_many_requires_a_mapping() -> None:
    for call in (wc.encode_many, wc.Compressor().prepare):
        with pytest.raises(wc.EncodeError, match="tensors is ndarray"):
            call(np.ones(3, np.float32))
