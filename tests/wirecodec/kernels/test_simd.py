"""SIMD operations compared with NumPy, on this processor and compiled for older ones."""

from __future__ import annotations

import platform
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.child import run
from wirecodec.kernels.compiler.jit import kernel
from wirecodec.kernels.cpu.simd.compress_store import compress_store
from wirecodec.kernels.cpu.simd.floats import (
    add_floats,
    multiply_floats,
    splat_float,
    subtract_floats,
    sum_floats,
    to_float64,
)
from wirecodec.kernels.cpu.simd.set_bits import store_set_bits
from wirecodec.kernels.cpu.simd.vector import (
    bits_to_mask,
    broadcast_lane,
    even_lanes,
    extract_lane,
    funnel_shift_right,
    load,
    lower_half,
    mask_to_bits,
    odd_lanes,
    prefix_sum,
    ramp,
    reduce_add,
    reduce_max,
    reinterpret,
    resize,
    select,
    shift_in,
    splat,
    store,
    upper_half,
    widen,
)

ROOT = Path(__file__).parents[3]

UNSIGNED = [np.uint8, np.uint16, np.uint32, np.uint64]


@kernel
def arithmetic(x: Any, y: Any, out: Any) -> None:
    a, b = load(x, 1, 8), load(y, 1, 8)
    store(out, 0, a + b)
    store(out, 8, a - b)
    store(out, 16, a * 3)
    store(out, 24, a & b | a ^ 5)
    store(out, 32, a << (b & 7))
    store(out, 40, a >> 2)
    c = a
    c += b
    c <<= 1
    store(out, 48, c)
    store(out, 56, funnel_shift_right(a, b, 3))
    store(out, 64, prefix_sum(a))
    store(out, 72, select(a < b, a, splat(x[0], 8)))


@pytest.mark.parametrize("dtype", UNSIGNED)
def test_arithmetic(dtype: Any, rng: np.random.Generator) -> None:
    width = 8 * np.dtype(dtype).itemsize
    for _ in range(20):
        x, y = (rng.integers(0, 2**width, 9, dtype=dtype) for _ in range(2))
        a, b = x[1:], y[1:]
        out = np.empty(80, dtype)
        arithmetic(x, y, out)
        one, two, three, five, seven = (dtype(n) for n in (1, 2, 3, 5, 7))
        expected = [
            a + b,
            a - b,
            a * three,
            a & b | a ^ five,
            a << (b & seven),
            a >> two,
            (a + b) << one,
            (b >> three) | (a << dtype(width - 3)),
            np.cumsum(a, dtype=dtype),
            np.where(a < b, a, x[0]),
        ]
        assert np.array_equal(out.reshape(-1, 8), expected)


@kernel
def comparisons(x: Any, y: Any) -> Any:
    a, b = load(x, 0, 8), load(y, 0, 8)
    return (
        mask_to_bits(a < b),
        mask_to_bits(a <= b),
        mask_to_bits(a == b),
        mask_to_bits(a != b),
        mask_to_bits(a >= b),
        mask_to_bits(a > 200),
    )


@pytest.mark.parametrize("dtype", UNSIGNED)
def test_comparisons_are_unsigned(dtype: Any) -> None:
    x = np.array([0, 1, 255, 254, 7, 7, 200, 201], np.uint8).astype(dtype)
    y = np.array([1, 1, 0, 255, 7, 8, 255, 0], np.uint8).astype(dtype)
    masks = [x < y, x <= y, x == y, x != y, x >= y, x > 200]
    assert comparisons(x, y) == tuple(np.packbits(mask, bitorder="little")[0] for mask in masks)


@kernel
def lanes(x: Any, y: Any, out: Any) -> Any:
    a, b = load(x, 0, 8), load(y, 0, 8)
    store(out, 0, even_lanes(a, b))
    store(out, 8, odd_lanes(a, b))
    store(out, 16, broadcast_lane(a, 5))
    store(out, 24, shift_in(a, 9))
    store(out, 32, ramp(8, 32) + 100)
    store(out, 40, resize(resize(a, 16), 32))
    store(out, 48, reinterpret(reinterpret(a, 64) + 1, 32))
    store(out, 56, select(bits_to_mask(np.uint64(0xF35), 8), a, b))
    store(out, 64, lower_half(b))
    store(out, 68, upper_half(a))
    store(out, 72, widen(resize(a, 16)))
    return extract_lane(a, 3), reduce_add(a), reduce_max(a)


def test_lanes(rng: np.random.Generator) -> None:
    x, y = (rng.integers(0, 2**32, 8, dtype=np.uint32) for _ in range(2))
    out = np.empty(80, np.uint32)
    assert lanes(x, y, out) == (x[3], np.sum(x, dtype=np.uint32), x.max())
    expected = [
        np.concatenate([x[::2], y[::2]]),
        np.concatenate([x[1::2], y[1::2]]),
        np.full(8, x[5]),
        [9, *x[:-1]],
        np.arange(100, 108),
        x & 0xFFFF,
        (x.view(np.uint64) + np.uint64(1)).view(np.uint32),
        np.where([1, 0, 1, 0, 1, 1, 0, 0], x, y),
        [*y[:4], *x[4:]],
        x & 0xFFFF,
    ]
    assert np.array_equal(out.reshape(-1, 8), expected)


@kernel
def floating(x: Any, y: Any, out: Any, wide: Any) -> float:
    a, b = load(x, 0, 16), load(y, 0, 16)
    store(out, 0, add_floats(a, b))
    store(out, 16, subtract_floats(a, b))
    store(out, 32, add_floats(multiply_floats(a, b), splat_float(0.1, a)))
    store(wide, 0, to_float64(a))
    return sum_floats(a)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_floats_are_rounded_one_by_one(dtype: Any, rng: np.random.Generator) -> None:
    x, y = (rng.normal(size=16).astype(dtype) for _ in range(2))
    out, wide = np.empty(48, dtype), np.empty(16)
    words = np.uint32 if dtype == np.float32 else np.uint64
    found = floating(x, y, out.view(words), wide.view(np.uint64))
    assert np.array_equal(out.reshape(3, 16), [x + y, x - y, x * y + dtype(0.1)])
    assert np.array_equal(wide, x.astype(np.float64))
    sums = x.astype(np.float64)
    while sums.size > 1:
        sums = sums[: sums.size // 2] + sums[sums.size // 2 :]
    assert found == sums[0]


@kernel
def put(out: Any, i: int, word: Any, base: Any) -> int:
    return store_set_bits(out, i, word, base)


@pytest.mark.parametrize("dtype", [np.uint32, np.int32, np.int64, np.uint64])
def test_positions_of_set_bits(dtype: Any, rng: np.random.Generator) -> None:
    base = 2**40 + 5 if np.dtype(dtype).itemsize == 8 else 2**30 + 5
    for ones in range(65):
        where = np.sort(rng.choice(64, ones, replace=False))
        word = np.bitwise_or.reduce(np.uint64(1) << where.astype(np.uint64), initial=np.uint64(0))
        out = np.full(70, 77, dtype)
        assert put(out, 3, word, base) == ones
        assert np.array_equal(out[3 : 3 + ones], base + where)
        assert (out[:3] == 77).all()
        assert (out[67:] == 77).all()


@kernel
def put_lanes(out: Any, i: int, x: Any, word: Any) -> int:
    return compress_store(out, i, load(x, 0, 64), word)


@pytest.mark.parametrize("dtype", UNSIGNED[1:])
def test_selected_lanes_are_stored_in_order(dtype: Any, rng: np.random.Generator) -> None:
    x = rng.integers(0, np.iinfo(dtype).max, 64, dtype, endpoint=True)
    for ones in range(65):
        where = np.sort(rng.choice(64, ones, replace=False))
        word = np.bitwise_or.reduce(np.uint64(1) << where.astype(np.uint64), initial=np.uint64(0))
        out = np.full(70, 77, dtype)
        assert put_lanes(out, 3, x, word) == ones
        assert np.array_equal(out[3 : 3 + ones], x[where])
        assert (out[:3] == 77).all()
        assert (out[67:] == 77).all()


OUT_OF_BOUNDS = """
import numba, numpy as np
from wirecodec.kernels.cpu.simd.set_bits import store_set_bits
from wirecodec.kernels.cpu.simd.vector import load, store
@numba.njit
def read(x, i):
    store(x, 0, load(x, i, 8))
@numba.njit
def write(x, i):
    store(x, i, load(x, 0, 8))
@numba.njit
def put(x, i):
    store_set_bits(x, i, 1, 0)
for call, last in ((read, 62), (write, 62), (put, 6)):
    x = np.zeros(70, np.uint32)
    call(x, last)
    for i in (-1, last + 1):
        try:
            call(x, i)
        except IndexError:
            continue
        raise AssertionError((call, i))
"""


def test_bounds_are_checked_on_demand() -> None:
    run(OUT_OF_BOUNDS, NUMBA_BOUNDSCHECK="1")


SECTIONS = """
import hashlib, numpy as np, wirecodec as wc
from wirecodec.arrays import read_only
from wirecodec.limits import UNLIMITED
rng = np.random.default_rng(5)
digest = hashlib.sha256()
for gaps in (rng.geometric(0.1, 9000), rng.geometric(0.9, 5000), rng.geometric(0.0005, 5000),
             np.where(rng.random(9000) < 0.01, 1500, 1), rng.integers(1, 4, 300) ** 9):
    x = np.zeros(int(gaps.sum()), np.float32)
    x[np.cumsum(gaps) - 1] = 1
    where = wc.selectors.NonZero().select(read_only(x)).indices
    assert np.array_equal(where, np.cumsum(gaps) - 1)
    for codec in (wc.codecs.Rice(), wc.codecs.Bitmap()):
        section = codec.encode(read_only(where.view(np.uint32)), x.size, 0)
        digest.update(bytes(section))
        found = codec.decode(read_only(np.asarray(section)), x.size, where.size, UNLIMITED)
        assert np.array_equal(found, where)
old = {"w": rng.normal(0, 0.02, 40_003).astype(np.float16)}
new = {"w": old["w"].copy()}
new["w"].view(np.uint16)[rng.choice(40_003, 600, replace=False)] += 1
for base in ("read", "unread"):
    patch = wc.diff(old, new, base=base)
    digest.update(bytes(patch))
    state = {"w": old["w"].copy()}
    assert np.array_equal(wc.apply(patch, state)["w"].view(np.uint16), new["w"].view(np.uint16))
print(digest.hexdigest())
"""


@pytest.mark.sweep
@pytest.mark.skipif(platform.machine() != "x86_64", reason="the others are named after x86 processors")
def test_older_processors_write_and_read_the_same() -> None:
    """This holds with a shared cache as well: code for this processor is not loaded on older ones."""
    here = run(SECTIONS)
    for name in ("x86-64", "haswell"):
        assert run(SECTIONS, NUMBA_CPU_NAME=name, NUMBA_CPU_FEATURES="") == here


@pytest.mark.bounds
def test_no_kernel_leaves_its_arrays(tmp_path: Path) -> None:
    assert run(SECTIONS, NUMBA_BOUNDSCHECK="1", NUMBA_CACHE_DIR=str(tmp_path)) == run(SECTIONS)
