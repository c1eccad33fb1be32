"""topk.cu against the CPU's exact top k, cold and warm."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.gpu_emulated.emulator import Emulator
from tests.inputs import Array
from wirecodec.arrays import bits_of, read_only
from wirecodec.kernels.cuda.select import infinity_of, rule_of
from wirecodec.kernels.cuda.topk import Search
from wirecodec.select.topk.exact import select_top_k

SIZE = 20_011


def vectors(dtype: Any) -> dict[str, Array]:
    rng = np.random.default_rng(4)
    normal = rng.standard_normal(SIZE)
    made = {
        "normal": normal,
        "laplace": rng.laplace(size=SIZE),
        "all alike": np.full(SIZE, -0.75),
        "all zero": np.zeros(SIZE),
        "few": np.where(rng.random(SIZE) < 0.001, normal, 0.0),
        "two values": np.where(rng.random(SIZE) < 0.3, 1.0, -2.0),
        "one binade": 1 + rng.random(SIZE) / 4096,
        "denormals": normal * 1e-41,
    }
    return {name: x.astype(dtype) for name, x in made.items()}


def check(emulator: Emulator, search: Search, x: Array, k: int, *, warm: bool) -> None:
    step = search.warm if warm else search.cold
    made = step(emulator.put(bits_of(x)), infinity_of(x.dtype))
    indices, words = select_top_k(read_only(bits_of(x)), k)
    assert made.count(emulator) == (k, None)
    assert (made.indices == indices).all()
    assert made.values.tobytes() == words.tobytes()


@pytest.mark.sampled
@pytest.mark.parametrize("k", [1, 200, SIZE // 2, SIZE - 1])
def test_cold(emulator: Emulator, k: int, dtype: Any) -> None:
    search = Search(emulator, SIZE, bits_of(np.zeros(0, dtype)).dtype, k)
    for x in vectors(dtype).values():
        check(emulator, search, x, k, warm=False)


@pytest.mark.parametrize("k", [1, 200, SIZE // 2])
def test_warm(emulator: Emulator, k: int) -> None:
    """Test data near the last threshold, far above and below it, and with all magnitudes equal."""
    rng = np.random.default_rng(9)
    search = Search(emulator, SIZE, np.uint32, k)
    x = rng.laplace(size=SIZE).astype(np.float32)
    check(emulator, search, x, k, warm=False)
    for factor in (1.01, 0.99, 1.0, 100.0, 0.001, 1.0):
        x = (rng.laplace(size=SIZE) * factor).astype(np.float32)
        check(emulator, search, x, k, warm=True)
    for x in vectors(np.float32).values():
        check(emulator, search, x, k, warm=True)


def test_warm_reads_once(emulator: Emulator) -> None:
    """If the last threshold serves, no kernel counts all keys, and the second sweep does nothing."""
    rng = np.random.default_rng(10)
    search = Search(emulator, SIZE, np.uint32, 200)
    x = rng.laplace(size=SIZE).astype(np.float32)
    check(emulator, search, x, 200, warm=False)
    check(emulator, search, x, 200, warm=True)
    assert int(search._search[8]) == 0, "it swept twice"
    assert 200 <= int(search._search[9]) < 1000
    check(emulator, search, x * np.float32(64), 200, warm=True)
    assert int(search._search[8]) == 1, "the selection did not fit, but there was no second sweep"


@pytest.mark.parametrize(
    ("k", "kind"), [(1, np.float32), (200, np.float16), (200, np.float64), (5000, np.float32)]
)
def test_reaching_a_threshold(emulator: Emulator, k: int, kind: Any) -> None:
    """Select all elements that reach it if they are at most k, else the top k; never a zero."""
    search = Search(emulator, 9001, bits_of(np.zeros(0, kind)).dtype, k)
    for x in vectors(kind).values():
        words = bits_of(x[:9001])
        there, keys = emulator.put(words), words << 1 >> 1
        ordered = np.sort(keys)[::-1].tolist()
        for least in (ordered[k // 2], ordered[k], ordered[2 * k % 9001], ordered[0] + 1):
            made = search.reaching(there, emulator.put(rule_of(least, 7)), infinity_of(kind))
            reach = np.flatnonzero(keys >= max(least, 1))
            if reach.size > k:
                reach = select_top_k(read_only(words), k)[0]
            assert made.count(emulator) == (reach.size, None)
            assert (made.indices[: reach.size] == reach).all()
            assert made.values[: reach.size].tobytes() == words[reach].tobytes()


@pytest.mark.parametrize("width", [np.uint16, np.uint64])
def test_warm_of_other_widths(emulator: Emulator, width: Any) -> None:
    kind = np.float16 if width == np.uint16 else np.float64
    rng = np.random.default_rng(11)
    search = Search(emulator, SIZE, width, 333)
    for step in range(3):
        check(emulator, search, rng.laplace(size=SIZE).astype(kind), 333, warm=step > 0)


def test_nonfinite_is_reported(emulator: Emulator) -> None:
    x = np.random.default_rng(12).standard_normal(SIZE).astype(np.float32)
    x[7000], x[7001] = np.nan, np.inf
    made = Search(emulator, SIZE, np.uint32, 50).cold(emulator.put(bits_of(x)), infinity_of(x.dtype))
    count, bad = made.count(emulator)
    assert count == 50
    assert bad is not None, "positions are those among what was taken"


def test_k_out_of_range(emulator: Emulator) -> None:
    for k in (0, SIZE, SIZE + 1):
        with pytest.raises(ValueError, match="it must be 1 to"):
            Search(emulator, SIZE, np.uint32, k)


@pytest.mark.sampled
@pytest.mark.parametrize("kind", [np.float32, np.float64])
@pytest.mark.parametrize("k", [1, 200, SIZE // 2])
def test_warm_of_a_sum(emulator: Emulator, k: int, kind: Any) -> None:
    """Test near the last threshold and far from it: the top k of gradient + residual, and all sums."""
    rng = np.random.default_rng(13)
    words = np.dtype(f"u{np.dtype(kind).itemsize}")
    search = Search(emulator, SIZE, words, k)
    first = rng.laplace(size=SIZE).astype(kind)
    check(emulator, search, first, k, warm=False)
    for factor in (1.0, 1.01, 0.7, 1e30, 1e-30, 0.0):
        gradient, residual = ((rng.laplace(size=SIZE) * factor).astype(kind) for _ in range(2))
        total = emulator.empty(SIZE, words)
        given = emulator.put(gradient), emulator.put(residual)
        made = search.warm_sum(*given, total, infinity_of(kind))
        x = gradient + residual
        indices, chosen = select_top_k(read_only(bits_of(x)), k)
        assert made.count(emulator) == (k, None)
        assert (made.indices == indices).all()
        assert made.values.tobytes() == chosen.tobytes()
        assert total.tobytes() == x.tobytes()


def test_a_sum_beyond_the_range_is_reported(emulator: Emulator) -> None:
    rng = np.random.default_rng(14)
    gradient, residual = (rng.laplace(size=SIZE).astype(np.float32) for _ in range(2))
    gradient[77] = residual[77] = np.finfo(np.float32).max
    for first in (gradient, np.full(SIZE, 1e9, np.float32)):
        search = Search(emulator, SIZE, np.uint32, 50)
        search.cold(emulator.put(bits_of(first)), infinity_of(np.float32))
        total = emulator.empty(SIZE, np.uint32)
        made = search.warm_sum(emulator.put(gradient), emulator.put(residual), total, infinity_of(np.float32))
        assert made.count(emulator)[1] is not None
