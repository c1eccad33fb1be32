"""Kernels of SketchML (formats/spec/value/sketchml.md): counting cells, forming buckets, encoding, decoding.

A cell is a range of magnitude bits, and all cells have the same width. Quantiles are computed over cells, so
counting needs no sorting, and a table lookup maps a value to its bucket.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from wirecodec.arrays import Array
from wirecodec.kernels.compiler.jit import inline, kernel
from wirecodec.kernels.cpu.simd.masks64 import keys64, load_tail64
from wirecodec.kernels.cpu.simd.memory import prefetch
from wirecodec.kernels.cpu.simd.vector import load, reduce_max, select, store
from wirecodec.kernels.cpu.simd.words import f32_from_bits
from wirecodec.kernels.layout import SKETCH_CELLS, SKETCH_SUMS

U8 = np.uint8
U32 = np.uint32
U64 = np.uint64
F64 = np.float64

_PREFETCH_DISTANCE = 1024
"""Values between the one being read and the one being prefetched."""


@kernel
def find_extremes(bits: Array) -> tuple[int, int]:
    """Find the smallest nonzero and the largest magnitude, as bits; both are 0 if all values are 0."""
    top = keys64(load_tail64(bits), 0)
    least = (top ^ top) - top  # 0 - key decreases as key increases, and is smallest for zero
    for start in range(0, bits.size & ~63, 64):
        prefetch(bits, start + _PREFETCH_DISTANCE, 64)
        keys = keys64(bits, start)
        top = select(keys > top, keys, top)
        negated = (keys ^ keys) - keys
        least = select(negated > least, negated, least)
    return np.int64(U32(U32(0) - U32(reduce_max(least)))), np.int64(reduce_max(top))


@inline
def _find_cells(bits: Array, start: int, base: np.uint32, shift: np.uint32) -> Any:
    """Compute the cells of 64 numbers; the cells of negative numbers follow those of positive ones."""
    numbers = load(bits, start, 64)
    keys = (numbers << 1) >> 1
    above = select(keys > base, keys - base, keys ^ keys)
    return (above >> shift) + (numbers >> 31) * SKETCH_CELLS


@kernel
def count_cells(bits: Array, base: np.uint32, shift: np.uint32, counts: Array) -> None:
    """Count the numbers in each cell.

    Args:
        bits: (r,) u32, finite binary32 numbers.
        base: magnitude bits at which the cells begin; smaller magnitudes belong to the first cell.
        shift: log2 of a cell's width, in units of the last binary32 bit.
        counts: (2, cells) u32, written: counts of positive and of negative numbers.
    """
    found = counts.reshape(-1)
    found[:] = U32(0)
    cells = np.empty(64, np.uint32)
    for start in range(0, bits.size & ~63, 64):
        prefetch(bits, start + _PREFETCH_DISTANCE, 64)
        store(cells, 0, _find_cells(bits, start, base, shift))
        for j in range(64):
            found[cells[j]] += U32(1)
    store(cells, 0, _find_cells(load_tail64(bits), 0, base, shift))
    for j in range(bits.size & 63):
        found[cells[j]] += U32(1)


@kernel
def number_cells(counts: Array, buckets: int, numbers: Array, sizes: Array) -> tuple[int, int]:
    """Assign cells to buckets.

    Args:
        counts: (2, cells) u32.
        buckets: maximum number of buckets.
        numbers: (2, cells) u8, written for cells with a nonzero count: the cell's bucket.
        sizes: (256,) i64, written: values per bucket.

    Returns:
        The number of buckets of negative values, and the number of buckets.
    """
    totals = np.zeros(2, np.int64)
    for sign in range(2):
        for cell in range(counts.shape[1]):
            totals[sign] += np.int64(counts[sign, cell])
    r = totals[0] + totals[1]
    sign_buckets = np.zeros(2, np.int64)
    sign_buckets[1] = (2 * buckets * totals[1] + r) // (2 * r)
    if totals[0] > 0 and totals[1] > 0:
        sign_buckets[1] = min(max(sign_buckets[1], 1), buckets - 1)
    sign_buckets[0] = buckets - sign_buckets[1]
    used = np.zeros(2, np.int64)
    sizes[:] = 0
    for turn in range(2):
        sign = 1 - turn
        before = np.int64(0)
        last = np.int64(-1)
        for cell in range(counts.shape[1]):
            count = np.int64(counts[sign, cell])
            if count == 0:
                continue
            quantile = sign_buckets[sign] * (2 * before + count) // (2 * totals[sign])
            used[sign] += quantile != last
            last = quantile
            before += count
            number = used[0] + used[1] - 1
            numbers[sign, cell] = U8(number)
            sizes[number] += count
    for cell in range(counts.shape[1]):  # the largest magnitude is the smallest negative number
        numbers[1, cell] = U8(np.int64(used[1]) - 1 - np.int64(numbers[1, cell]))
    for n in range(used[1] // 2):
        sizes[n], sizes[used[1] - 1 - n] = sizes[used[1] - 1 - n], sizes[n]
    return used[1], used[0] + used[1]


@inline
def _add_magnitude(number: np.uint32, code: np.uint8, sums: Array, part: int) -> None:
    """Add a number's magnitude to the partial sum of its bucket."""
    sums[part, code] += F64(f32_from_bits(U32(number & U32(0x7FFFFFFF))))


@kernel
def assign(bits: Array, base: np.uint32, shift: np.uint32, numbers: Array, codes: Array, sums: Array) -> None:
    """Look up each number's bucket and sum the magnitudes per bucket.

    Args:
        bits, base, shift: as for ``count_cells``.
        numbers: (2, cells) u8, from ``number_cells``.
        codes: (r,) u8, written: the buckets.
        sums: (4, 256) float64, zeroed; number i is added to row i mod 4, in order.
    """
    table = numbers.reshape(-1)
    cells = np.empty(64, np.uint32)
    for start in range(0, bits.size & ~63, 64):
        prefetch(bits, start + _PREFETCH_DISTANCE, 64)
        store(cells, 0, _find_cells(bits, start, base, shift))
        part = bits[start : start + 64]
        to = codes[start : start + 64]
        for j in range(64):
            code = table[cells[j]]
            to[j] = code
            _add_magnitude(part[j], code, sums, j % SKETCH_SUMS)
    store(cells, 0, _find_cells(load_tail64(bits), 0, base, shift))
    for i in range(bits.size & ~63, bits.size):
        codes[i] = table[cells[i & 63]]
        _add_magnitude(bits[i], codes[i], sums, i % SKETCH_SUMS)


@kernel
def look_up(codes: Array, words: Array, out: Array) -> int:
    """Replace each code by its table entry, and return the largest code.

    Args:
        codes: (r,) u8.
        words: (256,) table.
        out: (r,), written.
    """
    top = U8(0)
    for i in range(codes.size):
        code = codes[i]
        top = max(top, code)
        out[i] = words[code]
    return np.int64(top)


@kernel
def is_ascending(bits: Array, largest: np.float32) -> bool:
    """Check that binary32 numbers ascend, with -0 below +0, and are at most ``largest`` in magnitude.

    NaN fails the check.

    Args:
        bits: (n,) u32.
        largest: finite.
    """
    last = np.int64(-1) << 32
    for i in range(bits.size):
        magnitude = bits[i] & U32(0x7FFFFFFF)
        rank = np.int64(magnitude)
        if bits[i] != magnitude:
            rank = -1 - rank
        if not f32_from_bits(magnitude) <= largest or rank <= last:
            return False
        last = rank
    return True
