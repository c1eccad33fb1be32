"""A Compressor of gradients on a GPU: blobs, residuals and states equal those on the host."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import wirecodec as wc
from tests.gpu_emulated.compressor_pair import GRADIENTS, SCHEMES, STAGED
from tests.inputs import Array


def step(cupy: Any, there: wc.Compressor, here: wc.Compressor, tensors: dict[str, Array]) -> None:
    """Run one step of both, and compare everything that is visible."""
    made, expected = there.prepare({n: cupy.asarray(x) for n, x in tensors.items()}), here.prepare(tensors)
    assert isinstance(made.blob, cupy.ndarray)
    assert cupy.asnumpy(made.blob).tobytes() == made.blob_on_host.tobytes() == expected.blob.tobytes()
    for name, sent in expected.sent.items():
        assert cupy.asnumpy(made.sent[name].indices).tobytes() == sent.indices.tobytes()
        assert cupy.asnumpy(made.sent[name].values).tobytes() == sent.values.tobytes()
    made.commit()
    expected.commit()
    one, other = there.state_dict(), here.state_dict()
    assert one.keys() == other.keys()
    for key, x in one.items():
        assert (x.dtype, x.tobytes()) == (other[key].dtype, other[key].tobytes()), key


@pytest.mark.parametrize("kind", [np.float32, np.float16, np.float64])
@pytest.mark.parametrize("beta", [1.0, 0.3])
@pytest.mark.parametrize("scheme", [*SCHEMES, *STAGED])
def test_steps(cupy: Any, scheme: str, beta: float, kind: Any) -> None:
    rng = np.random.default_rng(1)
    there, here = (wc.Compressor(scheme, seed=7, feedback=wc.ErrorFeedback(beta)) for _ in range(2))
    for _ in range(4):
        size = 2000 if scheme in STAGED else 30_011
        step(cupy, there, here, {"w": rng.standard_normal(size).astype(kind)})
    residual = there.residual("w")
    assert residual is None or isinstance(residual, cupy.ndarray)


@pytest.mark.parametrize("shape", GRADIENTS)
def test_gradients_of_every_shape(cupy: Any, shape: str) -> None:
    for scheme in ("topk(0.02) | rice | qsgd", "adacomp | rice | raw", "sidco(0.01) | rice | raw"):
        rng = np.random.default_rng(2)
        there, here = (wc.Compressor(scheme) for _ in range(2))
        for _ in range(4):
            step(cupy, there, here, {"w": GRADIENTS[shape](rng).astype(np.float32)})


def test_a_large_tensor_from_its_last_threshold(cupy: Any) -> None:
    rng = np.random.default_rng(3)
    there, here = (wc.Compressor("topk(0.01) | rice | qsgd") for _ in range(2))
    for factor in (1, 1, 50, 1):
        step(cupy, there, here, {"w": (rng.laplace(size=2**24 + 12_345) * factor).astype(np.float32)})


@pytest.mark.parametrize("fuse", [0, 5000])
def test_several_tensors(cupy: Any, fuse: int) -> None:
    rng = np.random.default_rng(4)
    schemes = {"*.bias": "all | raw-index | raw", "*": "topk(0.1) | rice | qsgd"}
    there, here = (wc.Compressor(schemes, fuse=fuse) for _ in range(2))
    shapes: dict[str, tuple[int, ...]] = {
        "a": (30, 40),
        "b": (500,),
        "c.bias": (70,),
        "d": (2, 3, 4),
        "e": (0,),
    }
    for _ in range(3):
        step(cupy, there, here, {n: rng.standard_normal(s).astype(np.float32) for n, s in shapes.items()})


def test_nonfinite(cupy: Any) -> None:
    compressor = wc.Compressor("topk(0.1) | rice | raw")
    compressor.compress({"w": cupy.ones(5000, np.float32)})
    before = {key: x.tobytes() for key, x in compressor.state_dict().items()}
    bad = cupy.ones(5000, np.float32)
    bad[4321] = np.nan
    with pytest.raises(wc.EncodeError, match="tensor 'w', element 4321"):
        compressor.prepare({"w": bad})
    assert {key: x.tobytes() for key, x in compressor.state_dict().items()} == before


def test_on_another_stream(cupy: Any) -> None:
    rng = np.random.default_rng(5)
    there, here = (wc.Compressor("topk(0.01) | rice | qsgd") for _ in range(2))
    with cupy.cuda.Stream(non_blocking=True):
        for _ in range(3):
            x = rng.standard_normal(2**20).astype(np.float32)
            on_gpu = cupy.asarray(x)
            for _ in range(20):
                on_gpu *= np.float32(2)
                on_gpu *= np.float32(0.5)
            blob = there.compress({"w": on_gpu})
            assert cupy.asnumpy(blob).tobytes() == here.compress({"w": x}).tobytes()


@pytest.mark.parametrize("name", ["float32", "bfloat16"])
def test_torch(cupy: Any, name: str) -> None:
    torch = pytest.importorskip("torch", reason="torch is not installed")
    if not torch.cuda.is_available():
        pytest.skip("this torch has no CUDA")
    there, here = (wc.Compressor("topk(0.05) | rice | qsgd") for _ in range(2))
    for _ in range(3):
        x = torch.randn(40, 500).to(getattr(torch, name))
        blob = there.compress({"w": x.cuda()})
        assert cupy.asnumpy(blob).tobytes() == here.compress({"w": x}).tobytes()
