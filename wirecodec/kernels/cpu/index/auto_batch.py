"""Small sections of ``auto-index`` for many tensors: the smallest of bitmap, gap stream and rle, in one call.

A support that may have structure, or that may suit huffman, is left to ``AutoIndex.choose``.
"""

from __future__ import annotations

import numpy as np

from wirecodec.arrays import Array
from wirecodec.kernels.cpu.coding import gap_stream
from wirecodec.kernels.cpu.index import gap_probe, rle
from wirecodec.kernels.cpu.index.bitmap import set_bits
from wirecodec.kernels.cpu.index.structured import count_breaks
from wirecodec.kernels.cpu.jit import inline, kernel
from wirecodec.kernels.cpu.simd.memory import copy_bytes
from wirecodec.kernels.cpu.simd.words import leading_zeros
from wirecodec.kernels.cpu.threads import next_unit
from wirecodec.kernels.layout import GAP_BLOCK

__all__ = ["BITMAP", "GAPS", "OTHER", "RICE", "RLE", "plan", "write"]

U64 = np.uint64

RICE, BITMAP, GAPS, RLE, OTHER = 0, 1, 2, 3, 4
"""Kinds of sections. GAPS is a section of ``structured`` whose flags are 0; OTHER is not planned here."""
STORE_MARGIN = 7
"""Bytes that ``rle.write`` may write after a section."""

may_suit_huffman = inline(gap_probe.may_suit_huffman)


@kernel
def plan(
    indices: Array, cuts: Array, sizes: Array, max_small: int, kinds: Array, lengths: Array, turns: Array
) -> None:
    """Find the smallest codec for each tensor.

    Args:
        indices: u32, of all tensors, each tensor's ascending.
        cuts: (n + 1,) i64, the place of each tensor's indices; 0 < r < d.
        sizes: (n,) i64, elements of each tensor.
        max_small: number of indices up to which gap streams are planned.
        kinds: (n,) u8, written.
        lengths: (n,) i64, the bytes per section of rice; written: those of the smallest, undefined for OTHER.
        turns: counters of ``next_unit``; a unit is a tensor.
    """
    unit = next_unit(turns, -1)
    while unit >= 0:
        here = indices[cuts[unit] : cuts[unit + 1]]
        kind, rival = _find_rival(here, sizes[unit], max_small)
        if kind != OTHER and lengths[unit] <= rival:
            kind, rival = RICE, lengths[unit]
        kinds[unit], lengths[unit] = kind, rival
        unit = next_unit(turns, unit)


@inline
def _find_rival(indices: Array, d: int, max_small: int) -> tuple[int, int]:
    """Return the kind of the smallest codec but rice, and the bytes of its section."""
    r, runs = indices.size, 1 + count_breaks(indices)
    if 2 * r > d or 100 * runs * d <= gap_probe.LONG_RUNS * r * (d - r):
        return OTHER, 0
    kind, best = BITMAP, (d + 7) >> 3
    if r <= max_small:
        if _has_grain(indices, d):
            return OTHER, 0
        parameters = np.empty((r + GAP_BLOCK - 1) // GAP_BLOCK, np.uint8)
        gaps = 1 + ((gap_stream.plan(indices, parameters) + 7) >> 3)
        if _measure_runs(indices, d, runs, parameters) < gaps:
            return OTHER, 0
        if gaps < best:
            kind, best = GAPS, gaps
    if r < 8 * best and may_suit_huffman(indices, best):
        return OTHER, 0
    if 2 * runs < best:
        alternating = rle.measure(indices)
        if alternating < best:
            kind, best = RLE, alternating
    return kind, best


@inline
def _has_grain(indices: Array, d: int) -> bool:
    """Return whether ends of runs, but 0 and d, have a common divisor above 1, counted from the first."""
    origin = g = np.int64(0)
    for i in range(indices.size + 1):
        stop = np.int64(indices[i - 1]) + 1 if i > 0 else np.int64(0)
        start = np.int64(indices[i]) if i < indices.size else np.int64(d)
        if start == stop:
            continue
        for end in (stop, start):
            if end in (0, d):
                continue
            if origin == 0:
                origin = end
                continue
            a = end - origin
            while a:
                g, a = a, g % a
            if g == 1:
                return False
    return g > 1


@inline
def _measure_runs(indices: Array, d: int, runs: int, parameters: Array) -> int:
    """Return the bytes of a section of ``structured`` that lists runs; ``parameters`` are overwritten."""
    r = indices.size
    absent, present = np.empty(runs, np.uint32), np.empty(runs, np.uint32)
    n = 0
    for i in range(r):
        if i == 0 or indices[i] - indices[i - 1] != np.uint32(1):
            absent[n] = indices[i] - np.uint32(i)
            n += 1
        present[n - 1] = np.uint32(i)
    bits = 64 - leading_zeros(U64(min(r, d - r + 1) - 1))
    bits += gap_stream.plan(absent, parameters[: (runs + GAP_BLOCK - 1) // GAP_BLOCK])
    if runs > 1:
        bits += gap_stream.plan(present[: runs - 1], parameters[: (runs - 2) // GAP_BLOCK + 1])
    return 1 + ((bits + 7) >> 3)


@kernel
def write(
    indices: Array, cuts: Array, kinds: Array, lengths: Array, words: Array, starts: Array, turns: Array
) -> None:
    """Write the sections of the kinds BITMAP, GAPS and RLE.

    Args:
        indices, cuts: as for ``plan``.
        kinds, lengths: from ``plan``.
        words: u32, written at the sections.
        starts: (n,) i64, the first word of each section.
        turns: counters of ``next_unit``; a unit is a tensor.
    """
    out = words.view(np.uint8)
    unit = next_unit(turns, -1)
    while unit >= 0:
        here, at, size = indices[cuts[unit] : cuts[unit + 1]], 4 * starts[unit], lengths[unit]
        if kinds[unit] == BITMAP:
            bits = np.zeros((size + 7) >> 3, np.uint64)
            set_bits(here, bits)
            copy_bytes(bits.view(np.uint8), 0, size, out, at)
        elif kinds[unit] == GAPS:
            parameters = np.empty((here.size + GAP_BLOCK - 1) // GAP_BLOCK, np.uint8)
            bits = np.zeros((gap_stream.plan(here, parameters) + 63) >> 6, np.uint64)
            gap_stream.write(here, parameters, bits, 0)
            out[at] = 0
            copy_bytes(bits.view(np.uint8), 0, size - 1, out, at + 1)
        elif kinds[unit] == RLE:
            section = np.empty(size + STORE_MARGIN, np.uint8)
            rle.write(here, section)
            copy_bytes(section, 0, size, out, at)
        unit = next_unit(turns, unit)
