"""Exact top-k compared with sorting: any size, type and threads, and inputs that mislead its sample."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import wirecodec as wc
from tests import oracles
from tests.conftest import DTYPES
from tests.wirecodec.select.vectors import CUTS, FAMILIES, family, typed
from wirecodec.arrays import bits_of, read_only
from wirecodec.kernels.compiler.jit import kernel
from wirecodec.kernels.cpu.select import radix, sample, terms, topk
from wirecodec.kernels.cpu.simd import memory
from wirecodec.select.topk import exact as topk_exact

ROOT = Path(__file__).parents[3]


def assert_exact(x: Any, k: int) -> None:
    indices, words = topk_exact.select_top_k(bits_of(x), k)
    expected = oracles.top_k_sorted(x, k)
    assert indices.dtype == np.int32
    assert np.array_equal(indices, expected)
    assert np.array_equal(words, bits_of(x)[expected])


@settings(max_examples=150)
@given(
    st.one_of(st.integers(1, 300), st.integers(1, 70_000), st.sampled_from(CUTS)),
    st.sampled_from(FAMILIES),
    st.sampled_from(DTYPES),
    st.one_of(st.floats(0, 1), st.sampled_from([0.0, 0.001, 0.01, 0.1, 0.2499, 0.25, 0.5, 1.0])),
    st.integers(0, 2**32),
)
@example(4097, "constant", DTYPES[0], 0.001, 0)
@example(70_000, "rows", DTYPES[0], 0.1, 0)
def test_any_size_type_and_fraction(n: int, name: str, dtype: Any, share: float, seed: int) -> None:
    x = typed(family(name, n + 1, seed), dtype)
    assert_exact(x, min(n, max(1, int(share * n))))


@pytest.mark.parametrize("name", FAMILIES)
def test_the_same_from_any_number_of_threads(name: str, on_threads: Any) -> None:
    x = typed(family(name, 150_001, 7), np.float32)
    for n in (1, 2, 3):
        on_threads(n)
        for k in (1, 150, 1500, 15_000, 37_500, 75_000, 150_000):
            assert_exact(x, k)


@kernel
def _sampled(bits: Any, run: int, samples: int, seed: int, out: Any) -> None:
    strata = samples // run
    plan = sample.plan_strata(bits.size // run, strata)
    for stratum in range(strata):
        first = sample.find_run(stratum, plan, np.uint64(seed)) * run
        for i in range(run):
            out[stratum * run + i] = first + i


def sampled(x: Any, k: int) -> Any:
    """Return the positions of the first sample of x."""
    run = 64 // x.itemsize
    plan = topk_exact.plan_sample(x.size, k, run)
    found = np.empty(plan.samples, np.int64)
    _sampled(bits_of(x), run, plan.samples, 0, found)
    return found


def sampled_next(x: Any, k: int, seed: int) -> Any:
    """Return the positions of a second sample that is seeded with a given time."""
    plan = topk_exact.plan_sample(x.size, k, 1, 1.0)
    found = np.empty(plan.samples, np.int64)
    _sampled(bits_of(x), 1, plan.samples, seed, found)
    return found


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("k", [200, 20_000])
def test_an_adversary_who_knows_the_sample(dtype: Any, k: int, on_threads: Any) -> None:
    """Unsampled elements are large, or small; sampled ones alone are not zero, or alone are ties."""
    rng = np.random.default_rng(3)
    for threads_taken in (1, 2):
        on_threads(threads_taken)
        for seen, unseen in ((1e-3, 1.0), (1.0, 1e-3), (0.0, 1.0), (1.0, 0.0)):
            x = rng.laplace(size=200_000) * unseen
            where = sampled(x.astype(dtype), k)
            x[where] = rng.laplace(size=where.size) * seen
            assert_exact(x.astype(dtype), k)
            x[where] = seen
            assert_exact(x.astype(dtype), k)
            x[:] = unseen
            x[where] = rng.laplace(size=where.size) * seen
            assert_exact(x.astype(dtype), k)


@pytest.mark.parametrize("k", [200, 20_000])
def test_an_adversary_who_knows_the_time(k: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both samples mislead, so the digits are counted."""
    counted: list[int] = []
    count = radix.find_threshold_by_digits

    def record(bits: Any, k: int) -> Any:
        counted.append(k)
        return count(bits, k)

    monkeypatch.setattr(radix, "find_threshold_by_digits", record)
    monkeypatch.setattr(topk_exact, "time", SimpleNamespace(perf_counter_ns=lambda: 7))
    rng = np.random.default_rng(3)
    for seen, unseen in ((1e-3, 1.0), (1.0, 1e-3), (0.0, 1.0)):
        x = (rng.laplace(size=200_000) * unseen).astype(np.float32)
        where = np.concatenate([sampled(x, k), sampled_next(x, k, 7)])
        x[where] = rng.laplace(size=where.size) * seen
        assert_exact(x, k)
    assert counted == [k] * 3


def test_every_method_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise the tests above would not cover all methods."""
    calls: list[str] = []

    def record(name: str, method: Any) -> Any:
        def call(*arguments: Any) -> Any:
            calls.append(name)
            return method(*arguments)

        return call

    for name in ("_select_sparse", "_select_dense", "_fill"):
        monkeypatch.setattr(topk_exact, name, record(name, getattr(topk_exact, name)))
    x = family("heavy tails", 100_000, 1).astype(np.float32)
    for k, methods in ((1000, ["_select_sparse"]), (50_000, ["_select_dense", "_fill"])):
        calls.clear()
        assert_exact(x, k)
        assert calls == methods
    x[:] = 1e-3
    x[sampled(x, 1000)] = 1.0
    calls.clear()
    assert_exact(x, 1000)
    assert calls[0] in ("_select_sparse", "_select_dense")
    assert "_fill" in calls
    monkeypatch.setattr(sample, "bracket_kth", lambda *a: (1, 2, False))  # both samples are useless
    calls.clear()
    assert_exact(family("heavy tails", 100_000, 2).astype(np.float32), 1000)
    assert calls == ["_select_sparse", "_select_dense", "_fill"]
    for tied, methods in (
        (False, ["_select_sparse", "_select_dense"]),
        (True, ["_select_dense", "_fill"] * 2),
    ):  # brackets above all keys
        monkeypatch.setattr(
            sample, "bracket_kth", lambda *a, tied=tied: (2**30 + 2**29, 2**30 + 2**29 + 1, tied)
        )
        calls.clear()
        assert_exact(family("heavy tails", 100_000, 2).astype(np.float32), 1000)
        assert calls == [*methods, "_fill"]


@pytest.mark.parametrize("dtype", [np.uint16, np.uint32, np.uint64])
def test_digits_are_counted(dtype: Any) -> None:
    """Among 64 elements there are one, two, up to eight, more, or 64 different digits."""
    rng = np.random.default_rng(4)
    width = 8 * np.dtype(dtype).itemsize
    for size in (1, 63, 64, 200, 4096 + 64, 9000):
        for values in (1, 2, 3, 5, 12, 40, 10_000):
            for often in (0.0, 0.4, 0.9):  # how often the first two of them are calls
                few = rng.integers(0, 2**64, values, dtype=np.uint64) >> np.uint64(64 - width)
                which = np.where(
                    rng.random(size) < often, rng.integers(0, 2, size), rng.integers(0, 2**31, size)
                )
                bits = few[which % values].astype(dtype)
                keys = np.sort(bits & dtype(2 ** (width - 1) - 1))[::-1]
                for k in {1, size // 3 + 1, size}:
                    least = keys[k - 1]
                    expected = (int(least), k - int(np.count_nonzero(keys > least)))
                    assert radix.find_threshold_by_digits(read_only(bits), k) == expected


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_the_first_nonfinite_is_reported(dtype: Any, on_threads: Any) -> None:
    for threads_taken in (1, 2):
        on_threads(threads_taken)
        for places in ([0], [70_016], [12_345, 50_000], [69_999, 70_016], range(33, 70_017, 2)):
            for bad in (np.nan, np.inf, -np.inf):
                for ratio in (0.0001, 0.01, 0.6, 1):
                    x = typed(family("heavy tails", 70_017, 5), dtype)
                    x[list(places)] = bad
                    x[places[-1]] = np.nan  # whose bits are the largest
                    with pytest.raises(wc.EncodeError, match="topk cannot carry") as caught:
                        wc.selectors.TopK(ratio).select(x)
                    assert caught.value.position == places[0]


@pytest.mark.parametrize("size", [100, 4096, 4097, 70_000, 3_000_000])
def test_the_largest_of_all_bit_patterns_is_reported(size: int, dtype: Any, on_threads: Any) -> None:
    """All ones are a NaN: no key is above it, and more than k elements may have it."""
    on_threads(2)
    x = typed(family("heavy tails", size, 5), dtype)
    bits_of(x)[7::2] = ~bits_of(x)[0] | bits_of(x)[0]
    scheme = "topk(0.01) | rice | raw"
    for model in (
        lambda: wc.selectors.TopK(0.01).select(x),
        lambda: wc.encode_many({"a": x, "b": x}, scheme),
    ):
        with pytest.raises(wc.EncodeError, match="topk cannot carry") as caught:
            model()
        assert caught.value.position == 7


def test_values_come_with_the_selection(dtype: Any) -> None:
    x = typed(family("heavy tails", 30_000, 6), dtype)
    x.flags.writeable = False
    found = wc.selectors.TopK(0.01).select(x)
    assert found.values.dtype == x.dtype
    assert np.array_equal(found.values, x[found.indices])


def test_kernels_never_write_beyond_their_buffers() -> None:
    """Another thread may change an array between two reads, so counts may be wrong."""
    bits = bits_of(np.ones(5000, np.float32))
    bits.flags.writeable = False
    one = int(bits[0])
    found, words = np.empty(terms.SWEEP_SLACK + 100, np.int32), np.empty(terms.SWEEP_SLACK + 100, np.uint32)
    assert topk.sweep(bits, one, found, words) == -1
    assert topk.collect(bits, one, one + 1, np.empty(70, np.uint32)) == (0, -1)
    assert topk.fill(bits, one - 1, 0, np.empty(164, np.int32), np.empty(164, np.uint32))[0] == -1
    places = np.arange(1000, dtype=np.int32)
    out = np.empty(1, np.int32), np.empty(1, np.uint32)
    assert topk.keep(places, bits[:1000].copy(), one - 1, 0, 0, *out) == -1
    assert topk.keep_top_k(places[:10], np.zeros(10, np.uint32), 5, one, one + 1) != 5


@kernel
def _words(a: Any, out: Any) -> int:
    memory.prefetch(a, np.int64(10**6), 64)
    return memory.bit_width(a)


def test_words_of_memory() -> None:
    for dtype in (np.uint16, np.uint32, np.float64):
        x = np.zeros(3, dtype)
        assert _words(x, x) == 8 * x.itemsize


OTHER_PROCESSORS = """
import numpy as np
from tests import oracles
from tests.wirecodec.select.vectors import FAMILIES, family, typed, sums
from wirecodec.arrays import aligned, bits_of
from wirecodec.cpu.fast.sums import select_sum
from wirecodec.select.topk import exact as topk_exact
import wirecodec as wc
for dtype in DTYPES:
    for name in FAMILIES:
        for n in (5, 4000, 30_001):
            x = typed(family(name, n, 2), dtype)
            for k in (1, n // 100 + 1, n // 10 + 1, n // 2):
                indices, words = topk_exact.select_top_k(bits_of(x), k)
                assert np.array_equal(indices, oracles.top_k_sorted(x, k)), (name, n, k)
                assert np.array_equal(words, bits_of(x)[indices])
    if np.dtype(dtype).itemsize >= 4:
        gradient, residual = sums(1, 30_001, "heavy tails", dtype)
        x, rest = gradient + residual, aligned(30_001, dtype)
        found = select_sum(wc.selectors.TopK(0.02), gradient, residual, rest)
        assert np.array_equal(found.indices, oracles.top_k_sorted(x, 600))
        x[found.indices] = 0
        assert np.array_equal(x, rest)
"""


@pytest.mark.parametrize(
    ("types", "settings"),
    [
        pytest.param(
            "(np.float32, np.float16)",
            {"NUMBA_CPU_NAME": "haswell", "NUMBA_CPU_FEATURES": "+avx2,+bmi,+fma"},
            marks=pytest.mark.nightly,
        ),
        pytest.param("(np.float32, np.float64)", {"NUMBA_BOUNDSCHECK": "1"}, marks=pytest.mark.bounds),
    ],
    ids=["without AVX-512", "with bounds checked"],
)
def test_other_processors_and_settings(types: str, settings: dict[str, str], tmp_path: Path) -> None:
    env = {**os.environ, **settings, "PYTHONPATH": str(ROOT), "NUMBA_CACHE_DIR": str(tmp_path)}
    code = OTHER_PROCESSORS.replace("DTYPES", types)
    subprocess.run([sys.executable, "-W", "error", "-c", code], env=env, check=True, timeout=280)


def test_bfloat16_orders_as_float32_does() -> None:
    x = family("heavy tails", 50_000, 8).astype(ml_dtypes.bfloat16)
    indices, _ = topk_exact.select_top_k(bits_of(x), 700)
    assert np.array_equal(indices, topk_exact.select_top_k(bits_of(x.astype(np.float32)), 700)[0])
