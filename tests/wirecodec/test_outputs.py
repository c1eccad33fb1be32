"""Arrays that results are written into: kinds that are allowed, and kinds that are refused unchanged."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import wirecodec as wc

SHAPE = (2, 3)
VALUES = np.array([5, -0.5], np.float32)
DENSE = np.array([[0, 5, 0], [0, 0, -0.5]], np.float32)
ZEROS = wc.SparseTensor([1, 5], VALUES, SHAPE)
PATCH = wc.SparseTensor([1, 5], VALUES, SHAPE, absent="unchanged")
FULL = wc.SparseTensor(range(6), DENSE.reshape(-1), SHAPE)
FLOATS = ["float64", "float32", "float16", "bfloat16", "float8_e4m3fn", "float8_e5m2"]

LAYOUTS: dict[str, Callable[[Any], Any]] = {
    "contiguous": lambda x: x[:2, :3].copy(),
    "strided": lambda x: x[::2, ::2],
    "columns": lambda x: x[:3, :2].T,
    "reversed": lambda x: x[1::-1, 2::-1],
    "swapped": lambda x: x[:2, :3].astype(x.dtype.newbyteorder("S")),
}


@pytest.mark.parametrize("tensor", [ZEROS, PATCH, FULL], ids=["zeros", "patch", "full"])
@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_numpy_arrays_of_every_float_type(tensor: wc.SparseTensor, dtype: str, layout: str) -> None:
    kind = np.dtype(getattr(np, dtype, None) or getattr(ml_dtypes, dtype))
    if layout == "swapped" and kind.kind == "V":
        pytest.skip("types of ml_dtypes have one byte order")
    memory = np.ones((4, 6), kind)
    out = LAYOUTS[layout](memory)
    assert tensor.to_dense(out=out) is out
    np.testing.assert_array_equal(out.astype(np.float32), np.where(DENSE, DENSE, tensor is PATCH))
    if np.shares_memory(out, memory):
        assert (memory == 1).sum() == 18 + (out == 1).sum()  # nothing beside it has changed


@pytest.mark.parametrize("tensor", [ZEROS, PATCH, FULL], ids=["zeros", "patch", "full"])
@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("layout", ["contiguous", "strided", "columns", "parameter"])
def test_torch_tensors_of_every_float_type(tensor: wc.SparseTensor, dtype: str, layout: str) -> None:
    torch = pytest.importorskip("torch")
    memory = torch.ones(4, 6).to(getattr(torch, dtype))
    out = {
        "contiguous": memory.clone()[:2, :3].contiguous,
        "strided": lambda: memory[::2, ::2],
        "columns": lambda: memory[:3, :2].T,
        "parameter": lambda: torch.nn.Parameter(memory[:2, :3].contiguous()),
    }[layout]()
    assert tensor.to_dense(out=out) is out
    np.testing.assert_array_equal(out.detach().float().numpy(), np.where(DENSE, DENSE, tensor is PATCH))


def test_a_tensor_without_dimensions() -> None:
    torch = pytest.importorskip("torch")
    tensor = wc.SparseTensor([0], np.float32([3]), ())
    for out in (np.zeros(()), torch.zeros((), dtype=torch.bfloat16)):
        tensor.to_dense(out=out)
        assert float(out) == 3


@pytest.mark.parametrize(
    ("value", "dtype"), [(np.int16(7), "float32"), (np.True_, "int8"), (np.complex64(1j), "c16")]
)
def test_other_types_need_one_that_holds_them(value: Any, dtype: str) -> None:
    tensor = wc.SparseTensor([1], np.array([value]), 2)
    assert tensor.to_dense(out=np.ones(2, dtype)).tolist() == [0, value]
    with pytest.raises(ValueError, match="does not hold all values"):
        tensor.to_dense(out=np.ones(2, bool if dtype != "int8" else "M8[s]"))


def test_values_that_are_part_of_the_array() -> None:
    memory = np.array([5, 7, 9, 9], np.float32)
    wc.SparseTensor([1, 3], memory[:2], 4).to_dense(out=memory)
    assert memory.tolist() == [0, 5, 0, 7]
    memory = np.array([5, 7, 9, 9], np.float32)
    wc.SparseTensor([0, 1], memory[1:3], 4).add_to(memory)
    assert memory.tolist() == [12, 16, 9, 9]


def test_rounding_raises_no_error_of_numpy() -> None:
    out = np.ones(2, np.float16)
    with np.errstate(all="raise"):
        wc.SparseTensor([1], [1e30] * np.ones(1), 2).to_dense(out=out)
    assert out.tolist() == [0, np.inf]


def _read_only() -> Any:
    x = np.ones(SHAPE, np.float32)
    x.flags.writeable = False
    return x


def _torch(make: Callable[[Any], Any]) -> Callable[[], Any]:
    return lambda: make(pytest.importorskip("torch"))


REFUSED: dict[str, Callable[[], Any]] = {
    "list": lambda: [[1.0] * 3] * 2,
    "none-array": object,
    "shape": lambda: np.ones((3, 2), np.float32),
    "read-only": _read_only,
    "broadcast": lambda: np.lib.stride_tricks.as_strided(np.ones(3, np.float32), SHAPE, (0, 4)),
    "overlap": lambda: np.lib.stride_tricks.as_strided(np.ones(4, np.float32), SHAPE, (4, 4)),
    "integer": lambda: np.ones(SHAPE, np.int32),
    "void": lambda: np.ones(SHAPE, "f4").view("V4"),
    "object": lambda: np.ones(SHAPE, object),
    "text": lambda: np.full(SHAPE, "1.0", "U40"),
    "masked": lambda: np.ma.ones(SHAPE, np.float32),
    "matrix": lambda: np.ones(SHAPE, np.float32).view(np.matrix),
    "torch-integer": _torch(lambda torch: torch.ones(SHAPE, dtype=torch.int32)),
    "torch-expanded": _torch(lambda torch: torch.ones(3).expand(SHAPE)),
    "torch-meta": _torch(lambda torch: torch.ones(SHAPE, device="meta")),
    "torch-sparse": _torch(lambda torch: torch.ones(SHAPE).to_sparse()),
    "torch-negative": _torch(lambda torch: torch._neg_view(torch.ones(SHAPE))),
    "torch-conjugate": _torch(lambda torch: torch.ones(SHAPE, dtype=torch.complex64).conj()),
    "torch-quantized": _torch(lambda torch: torch.quantize_per_tensor(torch.ones(SHAPE), 1, 0, torch.qint8)),
    "torch-shape": _torch(lambda torch: torch.ones(3, 2, dtype=torch.bfloat16)),
}


@pytest.mark.parametrize("kind", REFUSED)
@pytest.mark.filterwarnings("ignore")
def test_other_arrays_are_refused_unchanged(kind: str) -> None:
    out = REFUSED[kind]()
    before = repr(out)
    for tensor in (ZEROS, PATCH, FULL):
        with pytest.raises(ValueError, match="out"):
            tensor.to_dense(out=out)
    if kind in ("shape", "torch-shape"):
        out = np.ones(4, np.float32)
        before = repr(out)
    with pytest.raises(ValueError, match="out"):
        ZEROS.add_to(out)
    with pytest.raises(ValueError, match="out"):
        wc.decode_add(wc.encode(ZEROS), out)
    assert repr(out) == before
