"""moments.cu, adacomp.cu and checksum.cu against the CPU's kernels and zlib."""

from __future__ import annotations

import zlib
from typing import Any

import numpy as np
import pytest

import wirecodec as wc
from tests.gpu_emulated.emulator import Emulator
from wirecodec.arrays import bits_of, read_only
from wirecodec.kernels.cpu.select import moments as cpu_moments
from wirecodec.kernels.cuda import checksum, moments
from wirecodec.kernels.cuda.adacomp import mark_bins
from wirecodec.kernels.cuda.select import Selector, rule_of
from wirecodec.select.papers.dgc import draw_positions

KINDS = [np.float32, np.float64]


@pytest.mark.sampled
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("size", [1, 63, 64, 4096, 4160, 50_001])
def test_moments_of_an_interval(emulator: Emulator, kind: Any, size: int) -> None:
    x = np.random.default_rng(size).laplace(size=size).astype(kind)
    x[::7] = 0
    words = read_only(bits_of(x))
    low, high = (int(bits_of(np.array([t], kind))[0]) for t in (0.3, 2.5))
    rows = 1 + -(-(size & ~63) // cpu_moments.BLOCK_SIZE)
    for interval in ((1, 1 << (8 * words.itemsize - 1), 0.0, 1.0), (low, high, 0.6, 2.0)):
        expected = np.empty((rows, 5))
        start, stop, origin, scale = interval
        bounds = np.uint64(start), np.uint64(stop), origin, scale
        top = cpu_moments.sweep(words, 0, rows, *bounds, False, False, expected)
        found, greatest = moments.sum_moments(emulator, emulator.put(words), *interval)
        assert found.tolist() == list(cpu_moments.add_blocks(expected)[:3])
        assert greatest[0] == top


@pytest.mark.sampled
@pytest.mark.parametrize("size", [1000, 12_345])
def test_the_sample_of_dgc(emulator: Emulator, size: int, dtype: Any) -> None:
    words = bits_of(np.random.default_rng(size).standard_normal(size).astype(dtype))
    stream = 0xFEDCBA9876543210
    made = emulator.empty(size // 10, words.dtype)
    moments.sample(emulator, emulator.put(words), stream, made)
    assert made.tobytes() == words[draw_positions(size // 10, size, stream)].tobytes()


@pytest.mark.sampled
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("width", [1, 7, 50, 500, 20_000])
def test_adacomp_with_its_residual(emulator: Emulator, kind: Any, width: int) -> None:
    rng = np.random.default_rng(width)
    gradient, residual = (rng.laplace(size=10_007).astype(kind) for _ in range(2))
    gradient[1000:1600], residual[1000:1600] = 0, 0
    total = residual + gradient
    expected = wc.selectors.AdaComp(width).select(total, gradient=gradient)
    there, left = emulator.put(gradient), emulator.put(residual)
    keys, mean, bad = mark_bins(emulator, there, left, min(width, gradient.size), 1.0, left)
    assert not bad[0]
    assert left.tobytes() == total.tobytes()
    assert mean[0] == expected.scale
    selector = Selector(emulator, gradient.size, np.uint16, gradient.size)
    made = selector.select(keys, emulator.put(rule_of(1)), mask=0xFFFF)
    count, _ = made.count(emulator)
    assert (made.indices[:count] == expected.indices).all()
    again = mark_bins(emulator, there, None, min(width, gradient.size), 1.0, left, summed=True)
    assert [each.tobytes() for each in again] == [each.tobytes() for each in (keys, mean, bad)]
    assert left.tobytes() == total.tobytes()


@pytest.mark.parametrize("kind", KINDS)
def test_adacomp_reports_nonfinite(emulator: Emulator, kind: Any) -> None:
    gradient = np.ones(300, kind)
    gradient[299] = np.inf
    there, total = emulator.put(gradient), emulator.empty(300, kind)
    assert mark_bins(emulator, there, None, 50, 1.0, total)[2][0] == 1
    assert mark_bins(emulator, there[:299], None, 50, 1.0, total[:299])[2][0] == 0


@pytest.mark.sampled
@pytest.mark.parametrize("size", [0, 1, 7, 63, 64, 65, 1000, 16_384, 40_001])
def test_crc32_equals_zlib(emulator: Emulator, size: int) -> None:
    data = np.random.default_rng(size).integers(0, 256, size).astype(np.uint8)
    assert checksum.crc32(emulator, emulator.put(data))[0] == zlib.crc32(data.tobytes())
