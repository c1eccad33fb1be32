"""Plans on a GPU: the bytes of the CPU, by single launches and by a captured graph, without new memory."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import wirecodec as wc
from tests.gpu_emulated.planned import CODED, SAMPLES_AND_BINS, SELECTORS, inputs
from tests.gpu_emulated.test_gpu_encode import VALUES, tensor
from tests.gpu_hardware.test_bytes import KINDS
from tests.inputs import Array
from wirecodec.gpu import Plan


def check(cupy: Any, blob: Any, x: Array, scheme: str, seed: int) -> None:
    """Compare with the bytes of the CPU."""
    assert isinstance(blob, cupy.ndarray)
    assert cupy.asnumpy(blob).tobytes() == wc.encode(x, scheme, seed=seed).tobytes()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("value", VALUES)
@pytest.mark.parametrize("select", [*SELECTORS, *SAMPLES_AND_BINS])
def test_the_battery(cupy: Any, select: str, value: str, kind: Any) -> None:
    for index in CODED:
        scheme = f"{select} | {index} | {value}"
        plan = Plan(9001, kind, scheme)
        for seed, x in enumerate(inputs(9001, kind)):
            check(cupy, plan.encode(cupy.asarray(x), seed=seed).get(), x, scheme, seed)


@pytest.mark.parametrize("value", VALUES)
def test_filters(cupy: Any, value: str) -> None:
    for index in ("bloom(p0, 0.01)", "bloom(p1, 0.3)"):
        scheme = f"topk(0.02) | {index} | {value}"
        plan = Plan(9001, np.float32, scheme)
        for seed, x in enumerate(inputs(9001, np.float32)):
            check(cupy, plan.encode(cupy.asarray(x), seed=seed).get(), x, scheme, seed)


@pytest.mark.parametrize("size", [1, 257, 4097, 3_000_017])
@pytest.mark.parametrize(
    "scheme",
    [
        "topk(0.01) | rice | qsgd(bits=4)",
        "threshold(1.5) | bitmap | raw",
        "dgc(0.01) | rice | raw",
        "adacomp | rice | sign-scale",
        "topk(0.001) | bloom(p1, 0.01) | raw",
    ],
)
@pytest.mark.parametrize("strict", [False, True])
def test_a_graph(cupy: Any, scheme: str, size: int, strict: bool) -> None:
    """Capture once; then change tensor and seed. A strict capture fails on allocation."""
    mode = cupy.cuda.runtime.streamCaptureModeGlobal if strict else None
    with cupy.cuda.Stream(non_blocking=True) as stream:
        plan, given = Plan(size, np.float32, scheme), cupy.zeros(size, np.float32)
        stream.begin_capture(mode)
        pending = plan.encode(given)
        graph = stream.end_capture()
        for seed, x in enumerate(inputs(size, np.float32)):
            given.set(x)
            plan.reseed(seed)
            graph.launch(stream)
            check(cupy, pending.get(), x, scheme, seed)
        given[size // 2] = np.nan
        graph.launch(stream)
        with pytest.raises(wc.EncodeError, match=f"element {size // 2}"):
            pending.get()


@pytest.mark.parametrize("scheme", ["topk(0.1) | rice | qsgd(bits=3)", "dgc(0.01) | rice | raw"])
def test_a_graph_that_counts_its_seed(cupy: Any, scheme: str) -> None:
    """The seed is an ordinary array, so a graph may change it."""
    x = tensor(np.float32)
    with cupy.cuda.Stream(non_blocking=True) as stream:
        plan, given = Plan(x.size, np.float32, scheme), cupy.asarray(x)
        cupy.add(plan.seed, np.uint64(1), out=plan.seed)  # compiles CuPy's own kernel
        plan.reseed(0)
        stream.begin_capture()
        pending = plan.encode(given)
        cupy.add(plan.seed, np.uint64(1), out=plan.seed)
        graph = stream.end_capture()
        for step in range(3):
            graph.launch(stream)
            check(cupy, pending.get(), x, scheme, step)


@pytest.mark.parametrize("select", ["topk(0.01)", "dgc(0.01)", "adacomp"])
def test_no_memory_is_allocated(cupy: Any, select: str) -> None:
    x = cupy.asarray(tensor(np.float32, 1_000_001))
    plan = Plan(x.size, np.float32, f"{select} | rice | qsgd")
    pool = cupy.get_default_memory_pool()
    held = pool.used_bytes(), pool.total_bytes()
    asked = []

    class Hook(cupy.cuda.MemoryHook):  # type: ignore[misc, name-defined, unused-ignore]
        name = "asked"

        def malloc_preprocess(self, **given: Any) -> None:
            asked.append(given)

    with Hook():
        for _ in range(3):
            plan.encode(x).get()
    assert asked == []
    assert (pool.used_bytes(), pool.total_bytes()) == held


def test_several_chunks(cupy: Any) -> None:
    rng = np.random.default_rng(0)
    size = 2**25 + 12_345
    several = "topk(0.01) | rice | qsgd", "threshold(2.5) | bitmap | sign-scale"
    for scheme in (*several, "dgc(0.001) | rice | raw", "adacomp(bin=500) | rice | raw"):
        plan = Plan(size, np.float32, scheme, capacity=size // 10)
        for seed in range(2):
            x = rng.standard_normal(size).astype(np.float32)
            check(cupy, plan.encode(cupy.asarray(x), seed=seed).get(), x, scheme, seed)


def test_another_stream(cupy: Any) -> None:
    """Order the kernels after those that write the tensor, and before those that overwrite it."""
    x, scheme = tensor(np.float32, 2**22), "topk(0.01) | rice | qsgd"
    plan = Plan(x.size, np.float32, scheme)
    with cupy.cuda.Stream(non_blocking=True) as stream:
        there = cupy.asarray(x)
        for _ in range(20):
            there *= np.float32(2)
            there *= np.float32(0.5)
        pending = plan.encode(there)
        there *= np.float32(0)
        check(cupy, pending.get(), x, scheme, 0)
        stream.synchronize()


@pytest.mark.parametrize("name", ["float32", "bfloat16"])
def test_torch(cupy: Any, name: str) -> None:
    torch = pytest.importorskip("torch", reason="torch is not installed")
    if not torch.cuda.is_available():
        pytest.skip("this torch has no CUDA")
    x = torch.randn(30, 1000).to(getattr(torch, name))
    plan = Plan((30, 1000), x.dtype, "topk(0.01) | rice | raw")
    blob = plan.encode(x.cuda()).get()
    assert cupy.asnumpy(blob).tobytes() == wc.encode(x, "topk(0.01) | rice | raw").tobytes()
    with pytest.raises(wc.EncodeError, match="not contiguous"):
        plan.encode(x.reshape(1000, 30).cuda().t())
