"""Containers of a plan, byte by byte: codecs, element types, sizes, chunks, tags and seeds."""

from __future__ import annotations

from itertools import islice
from typing import Any

import numpy as np
import pytest

import wirecodec as wc
from tests.gpu_emulated.planned import CODED, SAMPLES_AND_BINS, SELECTORS, Planned, inputs
from tests.gpu_emulated.test_gpu_encode import VALUES, tensor
from wirecodec.arrays import DTYPES
from wirecodec.container import table
from wirecodec.cpu import chunk
from wirecodec.gpu import chunk as gpu_chunk
from wirecodec.gpu.plan import encoder


@pytest.mark.sampled
@pytest.mark.parametrize("value", VALUES)
@pytest.mark.parametrize("select", SELECTORS)
def test_bytes_equal_the_cpu(select: str, value: str) -> None:
    """Combine every selector and value codec with each index codec."""
    index = CODED[(SELECTORS.index(select) + VALUES.index(value)) % len(CODED)]
    planned = Planned(tensor(np.float32), f"{select} | {index} | {value}")
    for seed, x in enumerate(inputs(9001, np.float32)):
        planned.check(x, seed)


@pytest.mark.sampled
@pytest.mark.parametrize("select", ["nonzero", "topk(0.05)", "threshold(1.5)"])
def test_every_element_type(select: str, dtype: Any) -> None:
    for codecs in zip(CODED * 2, VALUES, strict=True):
        planned = Planned(tensor(dtype, 3001), " | ".join([select, *codecs]))
        for x in inputs(3001, dtype):
            planned.check(x)


@pytest.mark.sampled
@pytest.mark.parametrize("size", [1, 2, 31, 33, 255, 256, 257, 511, 513, 4095, 4096, 4097, 8192, 12_289])
@pytest.mark.parametrize("select", ["nonzero", "topk(0.5)", "topk(k=256)", "all"])
def test_sizes_next_to_multiples_of_blocks(select: str, size: int) -> None:
    for rest in (
        "rice | qsgd(bits=4)",
        "elias-fano | sign-scale",
        "raw-index | offset-float",
        "bitmap | raw",
    ):
        planned = Planned(tensor(np.float32, size), f"{select} | {rest}")
        for x in islice(inputs(size, np.float32), 3):
            planned.check(x)


@pytest.mark.sampled
@pytest.mark.parametrize("select", SAMPLES_AND_BINS)
def test_samples_and_bins(select: str, dtype: Any) -> None:
    for size, rest in ((1, "rice | raw"), (33, "bitmap | raw"), (4097, "rice | sign-scale")):
        planned = Planned(tensor(dtype, size), f"{select} | {rest}")
        for seed, x in enumerate(inputs(size, dtype)):
            planned.check(x, seed)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("value", VALUES[::3])
def test_bloom_after_topk(value: str) -> None:
    """The device counts what readers find, up to all elements; p1 draws from the seed there."""
    for select in ("topk(0.01)", "topk(k=1500)", "topk(1.0)"):
        for index in ("bloom(p0, 0.01)", "bloom(p1, 0.3)"):
            planned = Planned(tensor(np.float32, 3001), f"{select} | {index} | {value}")
            for seed, x in enumerate(inputs(3001, np.float32)):
                planned.check(x, seed)


@pytest.mark.parametrize(("index", "dtype"), [("bloom(p0, 0.9)", np.float16), ("bloom(p1, 0.9)", np.float64)])
def test_bloom_with_few_elements(index: str, dtype: Any) -> None:
    for size, k in ((2, 1), (64, 60), (65, 3), (1000, 999)):
        planned = Planned(tensor(dtype, size), f"topk(k={k}) | {index} | raw")
        for seed, x in enumerate(inputs(size, dtype)):
            planned.check(x, seed)


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    "select",
    ["nonzero", "topk(0.2)", "topk(k=3)", "all", "topk(1.0)", "threshold(0.5)", "dgc(0.2)", "adacomp"],
)
def test_several_chunks(select: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Use shorter chunks; some are empty, some full, and the last is shorter."""
    for module in (table, chunk, gpu_chunk, encoder):
        monkeypatch.setattr(module, "CHUNK", 4096)
    rng = np.random.default_rng(1)
    some = tensor(np.float32, 10_000)
    late, early, one = np.zeros(10_000), np.zeros(10_000), some.copy()
    late[8192:], early[:4096], one[4096:8192] = 1, rng.standard_normal(4096), 0
    for rest in ("rice | qsgd", "raw-index | raw", "bitmap | sign-scale", "elias-fano | raw(float16)"):
        planned = Planned(some, f"{select} | {rest}")
        for seed, x in enumerate((some, late, early, one, some)):
            planned.check(x.astype(np.float32), seed)


@pytest.mark.sampled
@pytest.mark.parametrize("shape", [(9001,), (9001, 1), (1, 1, 9001)])
@pytest.mark.parametrize("tag", [b"", b"t", bytes(range(256)) * 200])
def test_shapes_and_tags(shape: tuple[int, ...], tag: bytes) -> None:
    """A tag of 51,200 bytes needs a head of more pieces than there are threads."""
    planned = Planned(tensor(np.float32).reshape(shape), "topk(0.01) | rice | qsgd", tag=tag)
    for x in inputs(9001, np.float32):
        planned.check(x.reshape(shape))


def test_zero_dimensions() -> None:
    Planned(np.ones((), np.float32), "nonzero | rice | raw").check(np.full((), 3, np.float32))


@pytest.mark.parametrize("seed", [0, 1, 2**32, 2**64 - 1])
def test_seeds(seed: int) -> None:
    """The seed is a word on the device: a graph draws from its current value."""
    for rest in ("qsgd(bits=3)", "offset-float(bits=6, rounding=stochastic)"):
        planned = Planned(tensor(np.float32), f"topk(0.3) | rice | {rest}")
        planned.check(tensor(np.float32), seed)
        planned.device.clear(planned.plan.seed)
        planned.plan.run(planned.raw_bits)
        made = planned.plan.container_of(planned.raw_bits)
        assert made.tobytes() == wc.encode(tensor(np.float32), planned.scheme).tobytes()


@pytest.mark.sampled(2)
@pytest.mark.parametrize("seed", range(25))
def test_random_schemes(seed: int) -> None:
    """Draw a scheme, a type and a size, and run tensors of any density through one plan."""
    rng = np.random.default_rng(seed)
    size = int(np.exp(rng.uniform(0, 10)))
    k, ratio, t = rng.integers(1, size + 2), rng.uniform(1e-4, 1), rng.exponential()
    several = ["all", "nonzero", f"topk(k={k})", f"topk({ratio})", f"threshold({t})"]
    several += [f"dgc({ratio})", f"dgc({ratio}, sample={rng.uniform(0.01, 1)})", f"adacomp({k}, {1 + t})"]
    select = rng.choice(several)
    dtype = DTYPES[rng.integers(4)]
    planned = Planned(np.ones(size, dtype), f"{select} | {rng.choice(CODED)} | {rng.choice(VALUES)}")
    for step in range(6):
        x = rng.laplace(size=size) * rng.choice([1, 1, 1.02, 30, 0.03])
        x[rng.random(size) < rng.choice([0, 0.01, 0.5, 0.99, 1])] = rng.choice([0, 0, 1])
        planned.check(x.astype(dtype), step)
