"""Sections of ``auto-index`` for many tensors in one call: bitmap, gap stream or rle, unless rice is smaller.

A support that may have structure is left to ``AutoIndex.choose``.
"""

from __future__ import annotations

import numpy as np

from wirecodec.arrays import Array
from wirecodec.kernels.compiler.jit import inline, kernel
from wirecodec.kernels.cpu.coding import gap_stream
from wirecodec.kernels.cpu.index import gap_probe, rle, structured
from wirecodec.kernels.cpu.index.bitmap import set_bits
from wirecodec.kernels.cpu.simd.memory import copy_bytes
from wirecodec.kernels.cpu.simd.words import leading_zeros
from wirecodec.kernels.cpu.threads import next_unit
from wirecodec.kernels.layout import GAP_BLOCK

U64 = np.uint64

RICE, BITMAP, GAPS, RLE, OTHER = 0, 1, 2, 3, 4
"""Kinds of sections. GAPS is a section of ``structured`` whose flags are 0; OTHER is not planned here."""
STORE_MARGIN = 7
"""Bytes that ``rle.write`` may write after a section."""

may_suit_huffman = inline(gap_probe.may_suit_huffman)


@kernel
def plan(
    indices: Array,
    cuts: Array,
    sizes: Array,
    max_small: int,
    kinds: Array,
    lengths: Array,
    suits: Array,
    turns: Array,
) -> None:
    """Find the smallest codec but huffman for each tensor.

    Args:
        indices: u32, of all tensors, each tensor's ascending.
        cuts: (n + 1,) i64, the place of each tensor's indices; 0 < r < d.
        sizes: (n,) i64, elements of each tensor.
        max_small: number of indices up to which gap streams are planned.
        kinds: (n,) u8, written.
        lengths: (n,) i64, the bytes per section of rice; written: those of the smallest, undefined for OTHER.
        suits: (n,) bool, written: whether huffman may be smaller; False for OTHER.
        turns: counters of ``next_unit``; a unit is a tensor.
    """
    unit = next_unit(turns, -1)
    while unit >= 0:
        here = indices[cuts[unit] : cuts[unit + 1]]
        kind, rival, suits[unit] = _find_rival(here, sizes[unit], max_small)
        if kind != OTHER and lengths[unit] <= rival:
            kind, rival = RICE, lengths[unit]
        kinds[unit], lengths[unit] = kind, rival
        unit = next_unit(turns, unit)


@inline
def _find_rival(indices: Array, d: int, max_small: int) -> tuple[int, int, bool]:
    """Return the kind of the smallest codec but rice, its bytes, and whether huffman may be smaller."""
    r, runs = indices.size, 1 + structured.count_breaks(indices)
    if 2 * r > d or 100 * runs * d <= structured.LONG_RUNS_PERCENT * r * (d - r):
        return OTHER, 0, False
    kind, best = BITMAP, (d + 7) >> 3
    if r <= max_small:
        gaps = _plan_gaps(indices, d, runs)
        if gaps == 0:
            return OTHER, 0, False
        if gaps < best:
            kind, best = GAPS, gaps
    suits = r < 8 * best and may_suit_huffman(indices, best)
    if 2 * runs < best:
        alternating = rle.measure(indices)
        if alternating < best:
            kind, best = RLE, alternating
    return kind, best, suits


@inline
def _plan_gaps(indices: Array, d: int, runs: int) -> int:
    """Return the bytes of a gap stream of single elements; 0 if grains or runs may be smaller."""
    starts, stops = np.empty(runs + 1, np.uint32), np.empty(runs + 1, np.uint32)
    structured.find_runs(indices, starts, stops)
    starts, stops = starts[:runs], stops[:runs]
    if structured.find_grain(starts, stops, d)[0] > 1:
        return 0
    r = indices.size
    parameters = np.empty((r + GAP_BLOCK - 1) // GAP_BLOCK, np.uint8)
    gap_bits = gap_stream.plan(indices, parameters)
    absent, present = np.empty(runs, np.uint32), np.empty(runs, np.uint32)
    structured.split_runs(starts, stops, absent, present)
    run_bits = 64 - leading_zeros(U64(min(r, d - r + 1) - 1))
    run_bits += gap_stream.plan(absent, parameters[: (runs + GAP_BLOCK - 1) // GAP_BLOCK])
    if runs > 1:
        run_bits += gap_stream.plan(present[: runs - 1], parameters[: (runs - 2) // GAP_BLOCK + 1])
    return 0 if (run_bits + 7) >> 3 < (gap_bits + 7) >> 3 else 1 + ((gap_bits + 7) >> 3)


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
