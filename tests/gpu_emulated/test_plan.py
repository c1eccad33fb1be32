"""Plans: the bytes of ``wc.encode`` from launches that a graph can hold, without allocation or waiting."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import wirecodec as wc
from tests.gpu_emulated.recorder import Recorder
from tests.gpu_emulated.test_gpu_encode import INDEXES, VALUES, tensor
from tests.inputs import Array
from wirecodec.arrays import DTYPES, bits_of
from wirecodec.container import reader
from wirecodec.cpu import chunk
from wirecodec.errors import EncodeError
from wirecodec.gpu import chunk as gpu_chunk
from wirecodec.gpu.plan import encoder
from wirecodec.gpu.plan.encoder import DevicePlan, check
from wirecodec.gpu.plan.selectors import _DGC, _TopK
from wirecodec.kernels.cuda.topk import Search
from wirecodec.scheme import as_scheme

SELECTORS = ["all", "nonzero", "topk(0.01)", "topk(k=700)", "topk(1.0)", "threshold(1.5)"]
SAMPLES_AND_BINS = ["dgc(0.05)", "dgc(0.9, sample=1)", "adacomp", "adacomp(bin=5000)"]
CODED = [each for each in INDEXES if not each.startswith("bloom")]


class Planned:
    """Plan on a device of its own, next to the CPU's encoder; captured once, launched for each tensor."""

    def __init__(self, x: Array, scheme: str, *, tag: bytes = b"", capacity: int = 2**31) -> None:
        self.device = Recorder(len(scheme), 3)
        self.scheme, self.tag = scheme, tag
        self.shape, self.raw_bits = x.shape, self.device.put(bits_of(x.reshape(-1)))
        parsed = as_scheme(scheme)
        check(x.size, parsed)
        self.plan = DevicePlan(self.device, x.shape, x.dtype, parsed, tag, capacity)
        self.device.begin_capture()
        self.plan.run(self.raw_bits)
        self.graph = self.device.end_capture()

    def encode(self, x: Array, seed: int) -> Any:
        """Encode a tensor as a container."""
        self.raw_bits[:] = bits_of(x.reshape(-1))
        self.plan.reseed(seed)
        self.graph.launch()
        return self.plan.container_of(self.raw_bits)

    def check(self, x: Array, seed: int = 5) -> None:
        """Compare the bytes with the CPU's; they must be in the plan's own memory."""
        expected = wc.encode(x.reshape(self.shape), self.scheme, seed=seed, tag=self.tag)
        made = self.encode(x, seed)
        assert made.tobytes() == expected.tobytes()
        assert np.shares_memory(made, self.plan._blob), "it was encoded again"

    def check_error(self, x: Array) -> None:
        """Compare the error with the CPU's."""
        with pytest.raises(EncodeError) as expected:
            wc.encode(x, self.scheme)
        with pytest.raises(EncodeError) as found:
            self.encode(x, 5)
        assert str(found.value) == str(expected.value)
        assert found.value.position == expected.value.position


def inputs(size: int, dtype: Any) -> Iterator[Array]:
    """Yield tensors of one size, to be encoded through the same memory."""
    rng = np.random.default_rng(size)
    yield tensor(dtype, size)
    yield np.zeros(size, dtype)
    yield np.ones(size, dtype)
    yield (rng.laplace(size=size) * 1.05).astype(dtype)
    yield (np.arange(size) % 3 * 2.0).astype(dtype)
    yield np.where(rng.random(size) < 0.02, rng.standard_normal(size) * 50, 0).astype(dtype)
    yield (rng.standard_normal(size) * 1e-3).astype(dtype)
    yield tensor(dtype, size)


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
        for x in inputs(size, np.float32):
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


@pytest.mark.parametrize("index", ["bloom(p0, 0.9)", "bloom(p1, 0.9)"])
def test_bloom_with_few_elements(index: str, dtype: Any) -> None:
    for size, k in ((2, 1), (64, 60), (65, 3), (1000, 999)):
        planned = Planned(tensor(dtype, size), f"topk(k={k}) | {index} | raw")
        for seed, x in enumerate(inputs(size, dtype)):
            planned.check(x, seed)


@pytest.mark.parametrize("index", ["bloom(p0, 0.3)", "bloom(p1, 0.3)"])
def test_a_filter_that_exceeds_the_capacity(index: str) -> None:
    x = tensor(np.float32)
    planned = Planned(x, f"topk(k=20) | {index} | raw", capacity=100)
    assert planned.plan._blob.nbytes < 2000
    made = planned.encode(x, 7)
    assert made.tobytes() == wc.encode(x, planned.scheme, seed=7).tobytes()
    assert not np.shares_memory(made, planned.plan._blob)


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    "select",
    ["nonzero", "topk(0.2)", "topk(k=3)", "all", "topk(1.0)", "threshold(0.5)", "dgc(0.2)", "adacomp"],
)
def test_several_chunks(select: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Use shorter chunks; some are empty, some full, and the last is shorter."""
    for module in (reader, chunk, gpu_chunk, encoder):
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


def test_the_threshold_of_a_sample() -> None:
    """The seed determines the sample; fewer than k elements reach its threshold, or more, or too many."""
    x = tensor(np.float32)
    for ratio, given, ways in (
        (0.01, x, {"fewer", "more"}),
        (0.3, np.abs(x) > 0.5, {"more"}),
        (0.01, x != 0, {"too many"}),
        (0.1, 0 * x, {"none"}),
    ):
        planned, found = Planned(x, f"dgc({ratio}) | rice | raw"), set()
        assert isinstance(planned.plan._selector, _DGC)
        for seed in (0, 1, 2, 3, 2**64 - 1):
            planned.check(given.astype(np.float32), seed)
            search = planned.plan._selector.dgc.search
            swept, taken = search._search[8:].tolist()
            more = "more" if taken > search._k else "fewer" if taken else "none"
            found.add("too many" if swept else more)
        assert found == ways
    blobs = {wc.encode(x, "dgc(0.01) | rice | raw", seed=seed).tobytes() for seed in range(4)}
    assert len(blobs) > 1, "the seed changes nothing"


def test_a_mean_is_rounded_as_on_the_cpu(dtype: Any) -> None:
    """The mean exceeds a tie by less than a binary32 can show, which matters for bfloat16 only."""
    above = {"float16": 2**-10, "bfloat16": 0, "float32": 2**-23, "float64": 2**-53 + 2**-36}
    half = {"float16": 2**-11, "bfloat16": 2**-8, "float32": 2**-24, "float64": 2**-53}[dtype.name]
    x = np.ones(4096)
    x[:2] = 2 + 4096 * half, 2**-24
    x[::3] *= -1
    planned = Planned(x.astype(dtype), "adacomp(bin=1) | rice | raw")
    planned.check(x.astype(dtype))
    values = wc.decode(planned.encode(x.astype(dtype), 0)).values.astype(np.float64)
    assert set(np.abs(values).tolist()) == {1 + above[dtype.name]}


def test_a_mean_that_is_too_large() -> None:
    planned = Planned(np.full(100, 1e308), "adacomp(bin=5) | rice | raw")
    planned.check(np.full(100, 1e306))
    planned.check_error(np.full(100, 1e308))
    planned.check(np.full(100, 1e306))


@pytest.mark.sampled(5)
@pytest.mark.parametrize("bad", [np.nan, -np.inf])
@pytest.mark.parametrize(
    "scheme",
    [
        "topk(0.01) | rice | raw",
        "topk(1.0) | rice | raw",
        "threshold(1) | rice | raw",
        "all | rice | qsgd",
        "all | rice | offset-float",
        "topk(0.1) | rice | offset-float(bits=6, rounding=stochastic)",
        "threshold(0.1) | rice | qsgd(bits=7, bucket=48, norm=l2)",
        "nonzero | bitmap | sign-scale",
        "topk(0.01) | bloom(p0, 0.1) | raw",
        "dgc(0.01) | rice | raw",
        "dgc(0.7, sample=1) | rice | raw",
        "dgc(1.0) | rice | raw",
        "adacomp | rice | raw",
        "adacomp(bin=9001) | bitmap | sign-scale",
    ],
)
def test_errors_equal_the_cpu(scheme: str, bad: float) -> None:
    """An error does not affect the next run."""
    x = tensor(np.float32)
    planned = Planned(x, scheme)
    planned.check(x)
    x[[4000, 8000]] = bad
    planned.check_error(x)
    planned.check(tensor(np.float32))
    if "all" not in scheme and "nonzero" not in scheme:
        planned.check_error(np.full_like(x, bad))
        planned.check(tensor(np.float32))


@pytest.mark.parametrize("value", ["qsgd", "raw(float16)", "raw(bfloat16)", "offset-float"])
def test_overflow_of_a_narrower_type(value: str) -> None:
    x = tensor(np.float64)
    planned = Planned(x, f"topk(0.01) | rice | {value}")
    planned.check(x)
    x[1234] = 1e300
    planned.check_error(x)
    planned.check(tensor(np.float64))


def test_raw_carries_nan() -> None:
    x = tensor(np.float32)
    x[7] = np.nan
    for scheme in ("all | rice | raw", "nonzero | rice | raw(float16)"):
        Planned(x, scheme).check(x)


def test_a_selection_that_exceeds_the_capacity() -> None:
    """Encode again without the plan, from the same seed."""
    x = tensor(np.float32)
    for select in ("nonzero", "threshold(0.5)", "adacomp"):
        scheme = f"{select} | rice | qsgd"
        planned = Planned(x, scheme, capacity=1000)
        assert planned.plan._blob.nbytes < 8000
        made = planned.encode(x, 7)
        assert made.tobytes() == wc.encode(x, scheme, seed=7).tobytes()
        assert not np.shares_memory(made, planned.plan._blob)
        planned.check(np.where(np.arange(9001) < 900, x, 0).astype(np.float32))


def search_of(planned: Planned) -> Search:
    """Return a plan's search."""
    assert isinstance(planned.plan._selector, _TopK)
    return planned.plan._selector.search


def test_the_last_threshold_serves() -> None:
    """A tensor like the last one is read once.

    The first one and dissimilar ones are searched from the start.
    """
    rng = np.random.default_rng(3)
    x = rng.laplace(size=20_011).astype(np.float32)
    planned = Planned(x, "topk(0.01) | rice | raw")
    swept = []
    for factor in (1, 1.01, 1, 30, 1, 0.01):
        planned.check((x * np.float32(factor)).astype(np.float32))
        swept.append(bool(search_of(planned)._search[8]))
    assert swept == [True, False, False, True, True, True]


def test_a_new_plan_has_no_threshold() -> None:
    """No key reaches the initial threshold, so the first sweep writes nothing."""
    planned = Planned(tensor(np.float32), "topk(0.01) | rice | raw")
    assert int(search_of(planned).rule[0]) == 2**64 - 1


@pytest.mark.parametrize(
    ("scheme", "said"),
    [
        (
            "randomk(0.1) | rice | raw",
            "no randomk; it has all, nonzero, threshold, topk, dgc, adacomp; raw-index",
        ),
        ("topk(0.1) | auto-index | deflate", "no auto-index, deflate"),
        (
            "topk(0.1) | bloom(p2, 0.1) | raw",
            "bloom only with policy p0 or p1, after topk, for at most 16777216",
        ),
        ("dgc(0.1) | bloom(p0, 0.1) | raw", "after topk"),
        ("all | bloom(p1, 0.1) | raw", "after topk"),
        ("dct | topk(0.1) | rice | raw", "no dct"),
    ],
)
def test_unsupported_schemes(scheme: str, said: str) -> None:
    with pytest.raises(EncodeError, match=said):
        check(100, as_scheme(scheme))


@pytest.mark.parametrize("size", [0, 2**31])
def test_unsupported_sizes(size: int) -> None:
    with pytest.raises(EncodeError, match=f"1 to 2.31 - 1 elements, not {size}"):
        check(size, as_scheme("topk(0.1) | rice | raw"))


def test_bloom_needs_one_chunk() -> None:
    scheme = as_scheme("topk(k=9) | bloom(p0, 0.1) | raw")
    check(2**24, scheme)
    with pytest.raises(EncodeError, match="for at most 16777216 elements"):
        check(2**24 + 1, scheme)


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
