"""Launching ``bits.cu``: bitmaps from indices and back, indices of chunks, adding at indices."""

from __future__ import annotations

from typing import Any

import numpy as np

from wirecodec.arrays import Array
from wirecodec.kernels.cuda.device import THREADS, Device, blocks_for

__all__ = ["NOWHERE", "add", "below", "bitmap_of", "counted_from", "cuts", "divide", "nonfinite", "positions"]

NOWHERE = 0xFFFFFFFF
"""What a position is where there is none."""
_TILE = 1024
"""Words of a block of ``positions``."""
_MOST = 2048
"""Blocks from where on each does more."""


def bitmap_of(device: Device, indices: Any, d: int, count: Any = None) -> Any:
    """(⌈d/32⌉,) u32 in which the bits (n,) u32 ``indices`` are set; of the first ``count[0]`` where given."""
    words = device.empty(-(-d // 32), np.uint32)
    device.clear(words)
    blocks = blocks_for(indices.size, THREADS)
    device.launch("bits", "set_bits", blocks, indices, np.uint32(indices.size), count, words)
    return words


def positions(device: Device, words: Any, d: int, room: int) -> tuple[Any, Any]:
    """The numbers of the set bits of u32 ``words``, ascending, (room,) u32; and what was found, (2,) u32.

    That is how many there are, and whether one is ``d`` or more.
    """
    indices, found = device.empty(room, np.uint32), device.empty(2, np.uint32)
    blocks = max(blocks_for(words.size, _TILE), 1)
    states, tickets = device.empty(blocks, np.uint64), device.empty(1, np.uint32)
    for fresh in (found, states, tickets):
        device.clear(fresh)
    size = np.uint32(words.size), np.uint32(d)
    device.launch("bits", "positions", blocks, words, *size, indices, np.uint32(room), states, tickets, found)
    return indices, found


def add(device: Device, out: Any, indices: Any, values: Any, scale: float) -> None:
    """out[indices] += scale * values: the product is rounded, then the sum.

    Args:
        device: where.
        out: (d,) float32 or float64.
        indices: (n,) u32, unique, below d; None for all.
        values: (n,) of the type of ``out``.
        scale: rounded to that type.
    """
    kind = np.dtype(out.dtype)
    bits = np.array([scale], kind).view(f"u{kind.itemsize}")[0]
    blocks, size = blocks_for(values.size, THREADS), np.uint32(values.size)
    if indices is None:
        device.launch("bits", f"add_all_f{8 * kind.itemsize}", blocks, out, values, size, bits)
    else:
        device.launch("bits", f"add_at_f{8 * kind.itemsize}", blocks, out, indices, values, size, bits)


def divide(device: Device, total: Any, divisor: float) -> None:
    """(n,) float32 or float64 ``total`` /= divisor, rounded."""
    kind = np.dtype(total.dtype)
    bits = np.array([divisor], kind).view(f"u{kind.itemsize}")[0]
    blocks = blocks_for(total.size, THREADS)
    device.launch("bits", f"divide_f{8 * kind.itemsize}", blocks, total, np.uint32(total.size), bits)


def below(device: Device, indices: Any, edges: Array) -> Any:
    """How many of (n,) ascending u32 ``indices`` are below each of (m,) u32 ``edges``, which the host has."""
    counts = device.empty(edges.size, np.uint32)
    given = indices, np.uint32(indices.size), device.put(edges), np.uint32(edges.size), counts
    device.launch("bits", "count_below", blocks_for(edges.size, THREADS), *given)
    return counts


def cuts(device: Device, indices: Any, chunk: int, size: int) -> Any:
    """How many of (n,) ascending u32 ``indices`` lie before each chunk's end, the last one's left out."""
    edges = device.empty(blocks_for(size, chunk) - 1, np.uint32)
    sizes = np.uint32(indices.size), np.uint32(chunk), np.uint32(edges.size)
    device.launch("bits", "cut_at", blocks_for(edges.size, THREADS), indices, *sizes, edges)
    return edges


def counted_from(device: Device, indices: Any, base: int, dtype: Any, count: Any = None) -> Any:
    """(n,) u32 ``indices`` less ``base``, as u32 or u16; the first ``count[0]`` of them where given."""
    out = device.empty(indices.size, dtype)
    name = f"less_base_u{8 * out.dtype.itemsize}"
    sizes = np.uint32(indices.size), count, np.uint32(base)
    device.launch("bits", name, blocks_for(indices.size, THREADS), indices, *sizes, out)
    return out


def nonfinite(device: Device, words: Any, infinity: int, count: Any = None) -> Any:
    """(1,) u32, the first of (n,) words, or ``count[0]`` of them, that is NaN or infinite, or ``NOWHERE``."""
    first = device.put(np.array([NOWHERE], np.uint32))
    name = f"nonfinite_u{8 * words.dtype.itemsize}"
    blocks = blocks_for(words.size, 16 * THREADS, _MOST)
    device.launch("bits", name, blocks, words, np.uint32(words.size), count, np.uint64(infinity), first)
    return first
