"""bits.cu and packing.cu against the CPU's kernels."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.gpu_emulated.emulator import Emulator
from tests.inputs import supports
from wirecodec.kernels.cpu import support as cpu_support
from wirecodec.kernels.cpu.coding import packing as cpu_packing
from wirecodec.kernels.cuda import bits, packing
from wirecodec.value.bit_packing import packed_size

SMALL = {name: case for name, case in supports(np.random.default_rng(3)).items() if case[0] <= 2**20}


@pytest.mark.sampled
@pytest.mark.parametrize("name", SMALL)
def test_bitmaps_both_ways(emulator: Emulator, name: str) -> None:
    d, indices = SMALL[name]
    words = bits.set_bits(emulator, emulator.put(indices), d)
    dense = np.zeros(32 * words.size, bool)
    dense[indices] = True
    assert words.view(np.uint8).tobytes() == np.packbits(dense, bitorder="little").tobytes()
    found, said = bits.find_set_bits(emulator, words, d, indices.size)
    assert said.tolist() == [indices.size, 0]
    assert (found == indices).all()


def test_a_bit_beyond_and_too_little_room(emulator: Emulator) -> None:
    words = emulator.put(np.full(3, 0xFFFFFFFF, np.uint32))
    indices, said = bits.find_set_bits(emulator, words, 95, 4)
    assert said.tolist() == [96, 1]
    assert indices.tolist() == [0, 1, 2, 3]
    assert bits.find_set_bits(emulator, words, 96, 4)[1].tolist() == [96, 0]


def test_no_words(emulator: Emulator) -> None:
    assert bits.find_set_bits(emulator, emulator.empty(0, np.uint32), 0, 0)[1].tolist() == [0, 0]


@pytest.mark.parametrize("kind", [np.float32, np.float64])
@pytest.mark.parametrize("scale", [1.0, -0.1, 1e-30])
def test_adding(emulator: Emulator, kind: Any, scale: float) -> None:
    rng = np.random.default_rng(2)
    out, values = rng.standard_normal(3000).astype(kind), (rng.standard_normal(700) * 1e-20).astype(kind)
    values[::2] = rng.standard_normal(350)
    indices = np.sort(rng.choice(3000, 700, replace=False)).astype(np.uint32)
    there = emulator.put(out)
    bits.add_scaled(emulator, there, emulator.put(indices), emulator.put(values), scale)
    cpu_support.add_at(out, indices, values, kind(scale))
    assert there.tobytes() == out.tobytes()
    bits.add_scaled(emulator, there[:700], None, emulator.put(values), scale)
    out[:700] += kind(scale) * values
    assert there.tobytes() == out.tobytes()


@pytest.mark.sampled
@pytest.mark.parametrize("width", [*range(1, 9), 11, 12, 16, 17, 23, 24])
def test_packing(emulator: Emulator, width: int) -> None:
    rng = np.random.default_rng(width)
    kind = np.uint8 if width <= 8 else np.uint16 if width <= 16 else np.uint32
    for size in (1, 31, 511, 512, 513, 1700):
        codes = rng.integers(0, 2**width, size).astype(kind)
        expected = np.empty(packed_size(size, width) // 4, np.uint32)
        cpu_packing.pack(codes, width, expected)
        words = emulator.empty(expected.size, np.uint32)
        packing.pack(emulator, emulator.put(codes), width, words)
        assert words.tobytes() == expected.tobytes()
        back = emulator.empty(size, kind)
        packing.unpack(emulator, words, width, back)
        assert back.tobytes() == codes.tobytes()
