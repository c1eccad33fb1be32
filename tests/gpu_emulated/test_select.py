"""select.cu against the CPU's kernels, and against the definition."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.gpu_emulated.emulator import Emulator
from tests.inputs import Array
from wirecodec.arrays import bits_of
from wirecodec.kernels.cpu.index.bitmap import find_nonzero
from wirecodec.kernels.cuda.select import Selector, infinity_of, magnitude_of, rule_of
from wirecodec.select.threshold_common import collect_indices, round_threshold

SIZES = [0, 1, 31, 32, 33, 8191, 8192, 8193, 32_769, 70_003]


def vector(size: int, dtype: Any) -> Array:
    rng = np.random.default_rng(size)
    x = rng.standard_normal(size)
    x[::97] = 1e-41
    x[::89] = -0.0
    x[::83] = 0.0
    return x.astype(dtype)


@pytest.mark.sampled
@pytest.mark.parametrize("size", SIZES)
def test_threshold_equals_the_cpu(emulator: Emulator, size: int, dtype: Any) -> None:
    x = vector(size, dtype)
    words = bits_of(x)
    least = round_threshold(1.25, x.dtype)
    selector = Selector(emulator, size, words.dtype, size + 5, bitmap=True)
    there, rule = emulator.put(words), emulator.put(rule_of(int(least)))
    expected = collect_indices(x, least, "test")
    for _ in range(2):  # the memory serves again
        made = selector.select(there, rule, mask=magnitude_of(words), infinity=infinity_of(dtype))
        count, bad = made.count(emulator)
        assert (count, bad) == (expected.size, None)
        assert (made.indices[:count] == expected).all()
        assert made.values[:count].tobytes() == words[expected].tobytes()
        dense = np.zeros(32 * made.bitmap.size, bool)
        dense[expected] = True
        assert made.bitmap.view(np.uint8).tobytes() == np.packbits(dense, bitorder="little").tobytes()


@pytest.mark.sampled
@pytest.mark.parametrize("size", SIZES)
def test_nonzero_equals_the_cpu(emulator: Emulator, size: int, dtype: Any) -> None:
    words = bits_of(vector(size, dtype))
    selector = Selector(emulator, size, words.dtype, size, bitmap=True)
    every = 2 ** (8 * words.dtype.itemsize) - 1
    made = selector.select(emulator.put(words), emulator.put(rule_of(1)), mask=every)
    bitmap, ends = find_nonzero(words)
    assert made.count(emulator) == ((int(ends[-1]) if ends.size else 0), None)
    assert made.bitmap.tobytes() == bitmap.tobytes()[: made.bitmap.nbytes]


@pytest.mark.parametrize("ties", [0, 1, 3, 2000, 8193, 20_000])
def test_ties_go_to_the_lower_index(emulator: Emulator, ties: int) -> None:
    rng = np.random.default_rng(ties)
    words = rng.choice(np.array([1, 2, 3], np.uint32), 33_001) << np.uint32(20)
    least = 2 << 20
    selector = Selector(emulator, words.size, np.uint32, words.size, bitmap=True)
    made = selector.select(emulator.put(words), emulator.put(rule_of(least, ties)), mask=2**31 - 1)
    equal = np.flatnonzero(words == least)[:ties]
    expected = np.sort(np.concatenate([np.flatnonzero(words > least), equal]))
    count, _ = made.count(emulator)
    assert count == expected.size
    assert (made.indices[:count] == expected).all()
    assert np.unpackbits(made.bitmap.view(np.uint8), bitorder="little").sum() == count


def test_capacity_is_respected(emulator: Emulator) -> None:
    words = np.arange(1, 9001, dtype=np.uint32)
    selector = Selector(emulator, words.size, np.uint32, 100)
    made = selector.select(emulator.put(words), emulator.put(rule_of(1)), mask=2**31 - 1)
    assert made.count(emulator) == (9000, None)
    assert (made.indices == np.arange(100)).all()


@pytest.mark.sampled
@pytest.mark.parametrize("bad", [np.nan, -np.inf])
def test_first_nonfinite(emulator: Emulator, bad: float, dtype: Any) -> None:
    x = vector(9000, dtype)
    x[[8000, 5001, 5002]] = bad
    words = bits_of(x)
    selector = Selector(emulator, words.size, words.dtype, words.size)
    rule = emulator.put(rule_of(int(round_threshold(1.0, x.dtype))))
    made = selector.select(emulator.put(words), rule, mask=magnitude_of(words), infinity=infinity_of(x.dtype))
    assert made.count(emulator)[1] == 5001


def test_a_closed_gate(emulator: Emulator) -> None:
    selector = Selector(emulator, 5000, np.uint32, 5000)
    words, rule = emulator.put(np.ones(5000, np.uint32)), emulator.put(rule_of(1))
    enabled = emulator.put(np.zeros(1, np.uint64))
    before = [x.copy() for x in (selector.result.indices, selector.result.found)]
    selector.select(words, rule, mask=1, enabled=enabled)
    assert (selector.result.indices == before[0]).all()
    assert (selector.result.found == before[1]).all()


@pytest.mark.parametrize("kind", [np.float32, np.float64])
@pytest.mark.parametrize("in_place", [False, True])
@pytest.mark.parametrize("clear", [False, True])
def test_select_sum(emulator: Emulator, kind: Any, in_place: bool, clear: bool) -> None:
    rng = np.random.default_rng(8)
    gradient, residual = (rng.standard_normal(10_007).astype(kind) for _ in range(2))
    total = gradient + residual
    words = bits_of(total)
    least = round_threshold(2.0, total.dtype)
    old = emulator.put(residual)
    rest = bits_of(old) if in_place else emulator.empty(total.size, words.dtype)
    selector = Selector(emulator, total.size, words.dtype, total.size)
    rule = emulator.put(rule_of(int(least)))
    made = selector.select_sum(emulator.put(gradient), old, rest, rule, clear=clear)
    expected = collect_indices(total, least, "test")
    count, bad = made.count(emulator)
    assert (count, bad) == (expected.size, None)
    assert (made.indices[:count] == expected).all()
    assert made.values[:count].tobytes() == words[expected].tobytes()
    left = words.copy()
    if clear:
        left[expected] = 0
    assert rest.tobytes() == left.tobytes()
