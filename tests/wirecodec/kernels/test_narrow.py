"""Conversions between float types against NumPy and ml_dtypes."""

from __future__ import annotations

import ml_dtypes
import numpy as np

from wirecodec.kernels.cpu.coding import narrow


def test_narrowing_is_the_nearest_value(rng: np.random.Generator) -> None:
    bits = rng.integers(0, 2**32, 300_000, dtype=np.uint32)
    wide = bits.view(np.float32)
    finite = np.isfinite(wide)
    found = np.empty(bits.size, np.uint16)
    narrow.bfloat16_from_f32(bits, found)
    assert np.array_equal(found[finite], wide[finite].astype(ml_dtypes.bfloat16).view(np.uint16))
    narrow.half_from_f32(bits, found)
    with np.errstate(over="ignore"):
        assert np.array_equal(found[finite], wide[finite].astype(np.float16).view(np.uint16))
    double = rng.integers(0, 2**64, 300_000, dtype=np.uint64).view(np.float64)
    double = np.concatenate([double[np.isfinite(double)], wide[finite].astype(np.float64) * (1 + 1e-12)])
    found = np.empty(double.size, np.uint16)
    narrow.half_from_f64(double.view(np.uint64), found)
    with np.errstate(over="ignore"):
        assert np.array_equal(found, double.astype(np.float16).view(np.uint16))


def test_narrowing_rounds_ties_to_even_once(rng: np.random.Generator) -> None:
    """Halfway between two bfloat16 values, and a hair off it: float64 must not be rounded twice."""
    low = rng.integers(0, 0x7F7F, 20_000).astype(np.uint32)
    middle = (
        (low << 16).view(np.float32).astype(float) + ((low + 1) << 16).view(np.float32).astype(float)
    ) / 2
    for nudge, expected in ((0, low + (low & 1)), (1, low + 1), (-1, low)):
        x = middle if nudge == 0 else np.nextafter(middle, nudge * np.inf)
        found = np.empty(x.size, np.uint16)
        narrow.bfloat16_from_f64(x.view(np.uint64), found)
        assert np.array_equal(found, expected)


def test_conversions_do_not_depend_on_the_place(rng: np.random.Generator) -> None:
    """Every pattern of 16 bits, and what decides, in a vector and in the rest after it."""
    halves = np.arange(2**16, dtype=np.uint16)
    for widen, kind in (
        (narrow.single_from_half, np.float16),
        (narrow.single_from_bfloat16, ml_dtypes.bfloat16),
    ):
        wide = np.empty(halves.size, np.uint32)
        widen(halves, wide)
        numbers = halves.view(kind).astype(np.float32)
        finite = np.isfinite(numbers)
        assert np.array_equal(wide[finite], numbers.view(np.uint32)[finite])
        assert np.array_equal(np.isnan(wide.view(np.float32)), np.isnan(halves.view(kind).astype(np.float32)))
        edges = [
            0x477FEFFF,
            0x477FF000,
            0x387FFFFF,
            0x38800000,
            0x7F7F7FFF,
            0x7F7F8000,
            0x7F800000,
            0x7F800001,
        ]
        bits = np.concatenate([wide, wide + 1, wide - 1, np.array(edges, np.uint32)])
        for convert in (narrow.half_from_f32, narrow.bfloat16_from_f32):
            found, alone = np.empty(bits.size, np.uint16), np.empty(bits.size, np.uint16)
            convert(bits, found)
            for size in (1, 31, 33):
                for start in range(0, bits.size - size, 9973):
                    convert(bits[start : start + size], alone[start : start + size])
                    assert np.array_equal(alone[start : start + size], found[start : start + size])
    for convert, most in ((narrow.half_from_f32, 0x477FEFFF), (narrow.bfloat16_from_f32, 0x7F7F7FFF)):
        for place in (0, 31, 32, 39):
            bits, out = np.full(40, 0x7F800000, np.uint32), np.empty(40, np.uint16)
            bits[::2], bits[1::4] = 0xFFC00000, 0x80000000 | most
            bits[place] = most
            assert not convert(bits, out)
            bits[place] = most + 1
            assert convert(bits, out)
