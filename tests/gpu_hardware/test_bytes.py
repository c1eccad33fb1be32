"""The bytes of the CPU from a GPU, the same elements back, and streams and sizes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import wirecodec as wc
from formats import conformance
from tests.gpu_emulated.test_gpu_encode import FITTED, INDEXES, SELECTORS, STAGED, VALUES, tensor
from tests.inputs import Array
from wirecodec.arrays import bits_of
from wirecodec.kernels.cuda.device import cupy_device
from wirecodec.kernels.cuda.select import infinity_of
from wirecodec.kernels.cuda.topk import Search
from wirecodec.select.topk.exact import select_top_k

KINDS = [np.float32, np.float16, np.float64]
VECTORS = Path(__file__).parents[2] / "formats" / "vectors"


def check(cupy: Any, x: Array, scheme: str | None) -> None:
    """Encode and decode on the GPU, and compare with the CPU."""
    expected = wc.encode(x, scheme, seed=9, tag=b"tag")
    blob = wc.encode(cupy.asarray(x), scheme, seed=9, tag=b"tag")
    assert isinstance(blob, cupy.ndarray)
    assert cupy.asnumpy(blob).tobytes() == expected.tobytes()
    here, there = wc.decode(expected), wc.decode(blob)
    assert there.shape == here.shape
    assert cupy.asnumpy(there.indices).tobytes() == here.indices.tobytes()
    assert cupy.asnumpy(there.values).tobytes() == here.values.tobytes()
    assert cupy.asnumpy(there.to_dense()).tobytes() == here.to_dense().tobytes()
    for kind in (np.float32, np.float64):
        out = np.ones(x.size, kind)
        target = cupy.asarray(out)
        wc.decode_add(expected, out, scale=0.7)
        wc.decode_add(blob, target, scale=0.7)
        assert cupy.asnumpy(target).tobytes() == out.tobytes()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("value", VALUES)
@pytest.mark.parametrize("select", SELECTORS)
def test_the_battery(cupy: Any, select: str, value: str, kind: Any) -> None:
    for index in INDEXES:
        for x in (tensor(kind), tensor(kind, 100_001).reshape(1, -1), tensor(kind, 1)):
            check(cupy, x, f"{select} | {index} | {value}")


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("select", FITTED)
def test_samples_and_fits(cupy: Any, select: str, kind: Any) -> None:
    for rest in ("rice | raw", "bitmap | qsgd"):
        for x in (tensor(kind), tensor(kind, 100_001), tensor(kind, 70)):
            check(cupy, x, f"{select} | {rest}")


@pytest.mark.parametrize("scheme", [*STAGED, None])
def test_stages_without_kernels(cupy: Any, scheme: str | None) -> None:
    check(cupy, tensor(np.float32), scheme)


def test_a_real_gradient(cupy: Any, gradient: Array) -> None:
    for scheme in ("topk(0.01) | rice | qsgd", "topk(0.1) | elias-fano | offset-float"):
        check(cupy, gradient, scheme)


def test_several_chunks(cupy: Any) -> None:
    x = np.random.default_rng(0).standard_normal(2**25 + 12_345).astype(np.float32)
    for scheme in ("topk(0.01) | rice | qsgd", "threshold(2.5) | bitmap | sign-scale"):
        check(cupy, x, scheme)


def test_layouts(cupy: Any) -> None:
    x = np.random.default_rng(1).standard_normal((40, 50)).astype(np.float32)
    for view in (np.s_[::2, ::3], np.s_[::-1], np.s_[5]):
        there = wc.encode(cupy.asarray(x)[view], "nonzero | rice | raw")
        assert cupy.asnumpy(there).tobytes() == wc.encode(x[view], "nonzero | rice | raw").tobytes()


def test_named_tensors(cupy: Any) -> None:
    tensors = {"b": tensor(np.float32), "a": tensor(np.float64, 300).reshape(3, 100)}
    there = {name: cupy.asarray(x) for name, x in tensors.items()}
    blob = wc.encode_many(there, "topk(0.1) | rice | qsgd", seed=2)
    expected = wc.encode_many(tensors, "topk(0.1) | rice | qsgd", seed=2)
    assert cupy.asnumpy(blob).tobytes() == expected.tobytes()
    decoded = wc.decode_many(blob)
    for name, here in wc.decode_many(expected).items():
        assert cupy.asnumpy(decoded[name].values).tobytes() == here.values.tobytes()


@pytest.mark.parametrize("folder", ["valid", "bad"])
def test_golden_vectors(cupy: Any, folder: str) -> None:
    """Decode each container on the GPU, or raise the error of the host."""
    for path in sorted((VECTORS / folder).glob("*/*.json")):
        blob = np.frombuffer(conformance.load(path).data, np.uint8)
        here, there = outcome(blob), outcome(cupy.asarray(blob))
        no_such_numbers = isinstance(there, str) and "bfloat16" in there  # in CuPy
        assert no_such_numbers or there == here, path.stem


def outcome(blob: Any) -> Any:
    """Return the decoded tensors, or the error."""
    try:
        found = wc.decode_many(blob)
    except wc.WireError as error:
        return f"{type(error).__name__} {error.code} {error.entry} {error.offset}"
    except wc.DeviceError as error:
        return str(error)
    return {name: (x.shape, x.dtype, x.indices.tobytes(), x.values.tobytes()) for name, x in found.items()}


def test_errors(cupy: Any) -> None:
    x = tensor(np.float32)
    x[777] = np.nan
    for scheme in ("topk(0.01) | rice | qsgd", "threshold(1.0) | rice | raw", "all | raw-index | qsgd"):
        with pytest.raises(wc.EncodeError, match="element 777"):
            wc.encode(cupy.asarray(x), scheme)
    with pytest.raises(wc.EncodeError, match="int32"):
        wc.encode(cupy.arange(5, dtype=np.int32))


def test_another_stream(cupy: Any) -> None:
    x = np.random.default_rng(3).standard_normal(2**22).astype(np.float32)
    expected = wc.encode(x, "topk(0.01) | rice | qsgd")
    with cupy.cuda.Stream(non_blocking=True) as stream:
        there = cupy.asarray(x)
        for _ in range(20):
            there *= np.float32(2)
            there *= np.float32(0.5)
        blob = wc.encode(there, "topk(0.01) | rice | qsgd")
        stream.synchronize()
    assert cupy.asnumpy(blob).tobytes() == expected.tobytes()


@pytest.mark.parametrize("name", ["float32", "float16", "bfloat16", "float64"])
def test_torch(cupy: Any, name: str) -> None:
    torch = pytest.importorskip("torch", reason="torch is not installed")
    if not torch.cuda.is_available():
        pytest.skip("this torch has no CUDA")
    x = torch.randn(30, 1000).to(getattr(torch, name))
    for scheme in ("topk(0.01) | rice | qsgd", "nonzero | bitmap | raw"):
        blob = wc.encode(x.cuda(), scheme)
        assert cupy.asnumpy(blob).tobytes() == wc.encode(x, scheme).tobytes()
        assert cupy.asnumpy(wc.encode(x.cuda().t(), scheme)).tobytes() == wc.encode(x.t(), scheme).tobytes()


def test_a_warm_search(cupy: Any) -> None:
    rng = np.random.default_rng(4)
    size, k = 3_000_017, 30_000
    search = Search(cupy_device(), size, np.uint32, k)
    for step in range(6):
        x = (rng.laplace(size=size) * (50 if step == 4 else 1)).astype(np.float32)
        words = cupy.asarray(bits_of(x))
        made = (search.warm if step else search.cold)(words, infinity_of(x.dtype))
        indices, values = select_top_k(bits_of(x), k)
        assert (cupy.asnumpy(made.indices) == indices).all()
        assert cupy.asnumpy(made.values).tobytes() == values.tobytes()
