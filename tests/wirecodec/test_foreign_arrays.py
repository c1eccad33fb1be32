"""Arrays of other frameworks that cannot be read as they are: read in another way, or an EncodeError."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import wirecodec as wc

SCHEME = "all | raw-index | raw"


class Foreign:
    """Array whose DLPack raises, and whose ``__array__`` may work."""

    shape, dtype = (3,), np.dtype(np.float32)

    def __init__(self, error: Exception, in_device: bool = True) -> None:
        self.error, self.in_device = error, in_device

    def __dlpack_device__(self) -> tuple[int, int]:
        if self.in_device:
            raise self.error
        return 1, 0

    def __dlpack__(self, **options: Any) -> Any:
        raise self.error


class Readable(Foreign):
    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
        return np.arange(3, dtype=np.float32)


class Deleted(Foreign):
    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
        raise self.error


ERRORS = [BufferError("b"), RuntimeError("b"), ValueError("b"), KeyError("b"), NotImplementedError("b")]


@pytest.mark.parametrize("error", ERRORS, ids=lambda error: type(error).__name__)
@pytest.mark.parametrize("in_device", [False, True])
def test_dlpack_that_raises(error: Exception, in_device: bool) -> None:
    readable = Readable(error, in_device)
    assert wc.decode(wc.encode(readable, SCHEME)).values.tolist() == [0, 1, 2]
    assert wc.decode_many(wc.Compressor(SCHEME).compress({"w": readable}))["w"].nnz == 3
    for kind, message in ((Foreign, "is not an array: "), (Deleted, "cannot be read on the host")):
        with pytest.raises(wc.EncodeError, match=message):
            wc.encode(kind(error, in_device), SCHEME)
        with pytest.raises(wc.EncodeError, match=f"tensor 'w': .*{message}"):
            wc.Compressor("topk(0.5) | rice | raw").compress({"w": kind(error, in_device)})


def _free(torch: Any) -> Any:
    x = torch.ones(3)
    x.untyped_storage().resize_(0)
    return x


def _fake(torch: Any) -> Any:
    from torch._subclasses.fake_tensor import FakeTensorMode

    with FakeTensorMode():
        return torch.ones(3, dtype=torch.bfloat16)


def _escaped(torch: Any) -> Any:
    kept: list[Any] = []

    def keep(x: Any) -> Any:
        kept.append(x)
        return x

    torch.vmap(keep)(torch.ones(2, 3))
    return kept[0]


UNREADABLE: dict[str, tuple[Callable[[Any], Any], str]] = {
    "freed": (_free, "storage has been freed"),
    "fake": (_fake, "cannot be read"),
    "vmap": (_escaped, "cannot be read"),
    "meta": (lambda torch: torch.ones(3, device="meta"), "on meta; create its elements"),
    "lazy": (lambda torch: torch.nn.UninitializedParameter(), "uninitialized parameter"),
    "quantized": (lambda torch: torch.quantize_per_tensor(torch.ones(3), 1.0, 0, torch.qint8), "QInt8"),
    "complex32": (lambda torch: torch.ones(3, dtype=torch.complex32), "ComplexHalf"),
    "float8-fnuz": (lambda torch: torch.ones(3).to(torch.float8_e4m3fnuz), "Float8_e4m3fnuz"),
    "nested": (lambda torch: torch.nested.nested_tensor([torch.ones(3), torch.ones(2)]), "cannot be read"),
    "jagged": (
        lambda torch: torch.nested.nested_tensor([torch.ones(3), torch.ones(2)], layout=torch.jagged),
        "layout torch.jagged",
    ),
}


@pytest.mark.parametrize("kind", UNREADABLE)
@pytest.mark.filterwarnings("ignore")
def test_tensors_of_torch_without_readable_elements(kind: str) -> None:
    make, message = UNREADABLE[kind]
    tensor = make(pytest.importorskip("torch"))
    with pytest.raises(wc.EncodeError, match=message):
        wc.encode(tensor, SCHEME)
    with pytest.raises(wc.EncodeError, match=message):
        wc.Compressor("topk(0.5) | rice | raw").compress({"w": tensor})


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_lazy_views_of_torch(dtype: str) -> None:
    torch = pytest.importorskip("torch")
    x = torch.arange(3, dtype=getattr(torch, dtype))
    for tensor in (x.clone().requires_grad_(), -torch._neg_view(x), torch._neg_view(-x)):
        assert wc.decode(wc.encode(tensor, SCHEME)).values.tolist() == [0, 1, 2]
