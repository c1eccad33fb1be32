"""The loops of SketchML (formats/spec/value/sketchml.md): cells of magnitudes, their buckets, codes, values.

Quantiles are found among cells, which are ranges of a magnitude's bits, all of one width: counting needs no
sorting, and a value's bucket is one look into a table.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from wirecodec.arrays import Array
from wirecodec.kernels.cpu.jit import inline, kernel
from wirecodec.kernels.cpu.simd.masks64 import keys64, load_tail64
from wirecodec.kernels.cpu.simd.memory import prefetch
from wirecodec.kernels.cpu.simd.vector import load, reduce_max, select, store
from wirecodec.kernels.cpu.simd.words import f32_from_bits
from wirecodec.kernels.layout import SKETCH_CELLS, SKETCH_SUMS

__all__ = ["ascend", "assign", "count_cells", "extremes", "look_up", "number_cells"]

U8 = np.uint8
U32 = np.uint32
U64 = np.uint64
F64 = np.float64

_AHEAD = 1024


@kernel
def extremes(bits: Array) -> tuple[int, int]:
    """The least magnitude that is not 0, and the greatest, as bits of binary32; both 0 where all are 0."""
    top = keys64(load_tail64(bits), 0)
    least = (top ^ top) - top  # 0 - key falls as keys rise, and is least for zeros
    for start in range(0, bits.size & ~63, 64):
        prefetch(bits, start + _AHEAD, 64)
        keys = keys64(bits, start)
        top = select(keys > top, keys, top)
        turned = (keys ^ keys) - keys
        least = select(turned > least, turned, least)
    return np.int64(U32(U32(0) - U32(reduce_max(least)))), np.int64(reduce_max(top))


@inline
def _cells(bits: Array, start: int, base: np.uint32, shift: np.uint32) -> Any:
    """The cells of 64 numbers; those of negative ones come after all others."""
    numbers = load(bits, start, 64)
    keys = (numbers << 1) >> 1
    above = select(keys > base, keys - base, keys ^ keys)
    return (above >> shift) + (numbers >> 31) * SKETCH_CELLS


@kernel
def count_cells(bits: Array, base: np.uint32, shift: np.uint32, counts: Array) -> None:
    """How many numbers lie in each cell.

    Args:
        bits: (r,) u32, of finite binary32 numbers.
        base: the magnitude, as bits, where the cells begin; lesser ones belong to the first.
        shift: the binary logarithm of a cell's width, in bits of binary32.
        counts: (2, cells) u32, of positive and of negative numbers, written.
    """
    found = counts.reshape(-1)
    found[:] = U32(0)
    cells = np.empty(64, np.uint32)
    for start in range(0, bits.size & ~63, 64):
        prefetch(bits, start + _AHEAD, 64)
        store(cells, 0, _cells(bits, start, base, shift))
        for j in range(64):
            found[cells[j]] += U32(1)
    store(cells, 0, _cells(load_tail64(bits), 0, base, shift))
    for j in range(bits.size & 63):
        found[cells[j]] += U32(1)


@kernel
def number_cells(counts: Array, buckets: int, numbers: Array, sizes: Array) -> tuple[int, int]:
    """The bucket of each cell; how many buckets are of negative numbers, and how many there are.

    Args:
        counts: (2, cells) u32.
        buckets: how many there may be at most.
        numbers: (2, cells) u8, written where the count is not 0.
        sizes: (256,) i64, written: how many numbers each bucket has.
    """
    totals = np.zeros(2, np.int64)
    for sign in range(2):
        for cell in range(counts.shape[1]):
            totals[sign] += np.int64(counts[sign, cell])
    r = totals[0] + totals[1]
    shares = np.zeros(2, np.int64)
    shares[1] = (2 * buckets * totals[1] + r) // (2 * r)
    if totals[0] > 0 and totals[1] > 0:
        shares[1] = min(max(shares[1], 1), buckets - 1)
    shares[0] = buckets - shares[1]
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
            quantile = shares[sign] * (2 * before + count) // (2 * totals[sign])
            used[sign] += quantile != last
            last = quantile
            before += count
            number = used[0] + used[1] - 1
            numbers[sign, cell] = U8(number)
            sizes[number] += count
    for cell in range(counts.shape[1]):  # of negative numbers, the greatest magnitude is the least
        numbers[1, cell] = U8(np.int64(used[1]) - 1 - np.int64(numbers[1, cell]))
    for n in range(used[1] // 2):
        sizes[n], sizes[used[1] - 1 - n] = sizes[used[1] - 1 - n], sizes[n]
    return used[1], used[0] + used[1]


@inline
def _put(number: np.uint32, code: np.uint8, sums: Array, part: int) -> None:
    sums[part, code] += F64(f32_from_bits(U32(number & U32(0x7FFFFFFF))))


@kernel
def assign(bits: Array, base: np.uint32, shift: np.uint32, numbers: Array, codes: Array, sums: Array) -> None:
    """The bucket of each number, and the sums of each bucket's magnitudes.

    Args:
        bits, base, shift: as ``count_cells`` has them.
        numbers: (2, cells) u8, of ``number_cells``.
        codes: (r,) u8, written.
        sums: (4, 256) binary64, zeroed; number i is added to sum i mod 4 of its bucket, in order.
    """
    table = numbers.reshape(-1)
    cells = np.empty(64, np.uint32)
    for start in range(0, bits.size & ~63, 64):
        prefetch(bits, start + _AHEAD, 64)
        store(cells, 0, _cells(bits, start, base, shift))
        part = bits[start : start + 64]
        to = codes[start : start + 64]
        for j in range(64):
            code = table[cells[j]]
            to[j] = code
            _put(part[j], code, sums, j % SKETCH_SUMS)
    store(cells, 0, _cells(load_tail64(bits), 0, base, shift))
    for i in range(bits.size & ~63, bits.size):
        codes[i] = table[cells[i & 63]]
        _put(bits[i], codes[i], sums, i % SKETCH_SUMS)


@kernel
def look_up(codes: Array, words: Array, out: Array) -> int:
    """Write the word of each code; the greatest code.

    Args:
        codes: (r,) u8.
        words: (256,).
        out: (r,), written.
    """
    top = U8(0)
    for i in range(codes.size):
        code = codes[i]
        top = max(top, code)
        out[i] = words[code]
    return np.int64(top)


@kernel
def ascend(bits: Array, largest: np.float32) -> bool:
    """Whether binary32 numbers ascend, -0 below +0, and none is beyond ``largest`` in magnitude or NaN.

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
