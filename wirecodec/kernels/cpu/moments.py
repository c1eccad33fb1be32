"""Moments of magnitudes over an interval, in one read of the array; and those that exceed a threshold.

A *key* is an element's magnitude bits, which order as magnitudes do. Sums have one order on every machine
(``lanes64``): float32 in blocks of 4096 elements, then float64; all float64 for elements of 64 bits.
"""

from __future__ import annotations

import math

import numpy as np

from wirecodec.arrays import Array
from wirecodec.kernels.cpu.jit import inline, kernel
from wirecodec.kernels.cpu.lanes64 import LANES, ROWS, at_least64, logs64, moments64
from wirecodec.kernels.cpu.words import popcount, trailing_zeros

__all__ = ["exceedances", "moments"]

U64 = np.uint64


@inline
def _after_rows(bits: Array) -> Array:
    """The elements after the last whole row, as a row filled up with zeros."""
    last = np.zeros(LANES, bits.dtype)
    whole = bits.size // LANES * LANES
    last[: bits.size - whole] = bits[whole:]
    return last


@inline
def _block(
    bits: Array,
    start: int,
    rows: int,
    low: np.uint64,
    high: np.uint64,
    origin: float,
    scale: float,
    half: bool,
    with_logs: bool,
) -> tuple[int, float, float, float, float, np.uint64]:
    count, total, squares, top = moments64(bits, start, rows, low, high - low, origin, scale, half)
    exponents, logs = np.int64(0), 0.0
    if with_logs:
        exponents, product = logs64(bits, start, rows, scale, half)
        logs = math.log(product)
    return count, total, squares, exponents, logs, top


@kernel
def moments(
    bits: Array, low: np.uint64, high: np.uint64, origin: float, scale: float, half: bool, with_logs: bool
) -> tuple[int, float, float, float, np.uint64]:
    """Count, Σ y, Σ y² and Σ ln of the elements with 0 < low <= key < high, and the largest key of all.

    y = |x| · scale - origin. One read.

    Args:
        bits: the elements.
        low, high: keys, between which the elements are that count.
        origin: in the unit of |x| · scale.
        scale: a power of two that lets y² neither overflow nor underflow.
        half: whether 16 bits are binary16; they are bfloat16 otherwise.
        with_logs: whether Σ ln(|x| · scale) is wanted, which is that of all elements that are not 0.
    """
    rows = bits.size // LANES
    count, total, squares, exponents, logs, top = _block(
        _after_rows(bits), 0, 1, low, high, origin, scale, half, with_logs
    )
    for row in range(0, rows, ROWS):
        found = _block(bits, row * LANES, min(ROWS, rows - row), low, high, origin, scale, half, with_logs)
        count += found[0]
        total += found[1]
        squares += found[2]
        exponents += found[3]
        logs += found[4]
        top = max(top, found[5])
    return count, total, squares, exponents * math.log(2.0) + logs, top


@kernel
def exceedances(bits: Array, key: np.uint64, numbers: Array, where: Array, kept: Array) -> int:
    """The elements of at least ``key`` > 0 in their order; how many, or -1 where there is no room.

    No room is left where another thread writes to the array.

    Args:
        bits: the elements.
        key: the least that counts.
        numbers: of the elements, as many as those; or none, and they are numbered from 0.
        where: receives the numbers of those found.
        kept: receives their bits, with the room of ``where``; or none.
    """
    rows = bits.size // LANES
    last = _after_rows(bits)
    n = 0
    for row in range(rows + 1):
        start = row * LANES
        mask = at_least64(bits, start, key) if row < rows else at_least64(last, 0, key)
        if mask == U64(0):
            continue
        if n + popcount(mask) > where.size or (kept.size and kept.size != where.size):
            return -1
        while mask != U64(0):
            at = start + trailing_zeros(mask)
            where[n] = numbers[at] if numbers.size else at
            if kept.size:
                kept[n] = bits[at]
            n += 1
            mask &= mask - U64(1)
    return n
