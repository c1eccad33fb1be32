"""Launch ``bits.cu``: bitmaps from indices and back, chunk boundaries, and addition at indices."""

from __future__ import annotations

from typing import Any

import numpy as np

from wirecodec.arrays import Array
from wirecodec.kernels.cuda.device import THREADS, Device, blocks_for

NOWHERE = 0xFFFFFFFF
"""Position that stands for "no position"."""
_TILE = 1024
"""Words per block of ``find_set_bits``."""
_MAX_BLOCKS = 2048
"""With more work than this many blocks do, each block does more."""


def set_bits(device: Device, indices: Any, d: int) -> Any:
    """Write a bitmap of (⌈d/32⌉,) u32 from (n,) u32 ``indices``."""
    words = device.empty(-(-d // 32), np.uint32)
    device.clear(words)
    blocks = blocks_for(indices.size, THREADS)
    device.launch("bits", "set_bits", blocks, indices, np.uint32(indices.size), words)
    return words


def find_set_bits(device: Device, words: Any, d: int, capacity: int) -> tuple[Any, Any]:
    """Find the set bits of u32 words.

    Args:
        device: where the words are.
        words: the bitmap.
        d: universe size; a set bit at ``d`` or above is reported.
        capacity: number of indices to write at most.

    Returns (capacity,) u32 ascending indices, and (2,) u32: the number of set bits, and 1 if one is at ``d``
    or above.
    """
    indices, found = device.empty(capacity, np.uint32), device.empty(2, np.uint32)
    blocks = max(blocks_for(words.size, _TILE), 1)
    states, tickets = device.empty(blocks, np.uint64), device.empty(1, np.uint32)
    for fresh in (found, states, tickets):
        device.clear(fresh)
    size = np.uint32(words.size), np.uint32(d)
    device.launch(
        "bits", "find_set_bits", blocks, words, *size, indices, np.uint32(capacity), states, tickets, found
    )
    return indices, found


def add_scaled(device: Device, out: Any, indices: Any, values: Any, scale: float) -> None:
    """Compute out[indices] += scale * values; the product is rounded, then the sum.

    Args:
        device: where the arrays are.
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
    """Divide (n,) float32 or float64 ``total`` by a number, in place; each quotient is rounded."""
    kind = np.dtype(total.dtype)
    bits = np.array([divisor], kind).view(f"u{kind.itemsize}")[0]
    blocks = blocks_for(total.size, THREADS)
    device.launch("bits", f"divide_f{8 * kind.itemsize}", blocks, total, np.uint32(total.size), bits)


def count_below(device: Device, indices: Any, edges: Array) -> Any:
    """Count, for each of (m,) u32 ``edges`` on the host, the (n,) ascending u32 ``indices`` below it."""
    counts = device.empty(edges.size, np.uint32)
    given = indices, np.uint32(indices.size), device.put(edges), np.uint32(edges.size), counts
    device.launch("bits", "count_below", blocks_for(edges.size, THREADS), *given)
    return counts


def find_chunk_ends(device: Device, indices: Any, chunk: int, size: int) -> Any:
    """Count the (n,) ascending u32 ``indices`` below the end of each chunk except the last."""
    edges = device.empty(blocks_for(size, chunk) - 1, np.uint32)
    sizes = np.uint32(indices.size), np.uint32(chunk), np.uint32(edges.size)
    device.launch("bits", "count_below_multiples", blocks_for(edges.size, THREADS), indices, *sizes, edges)
    return edges


def subtract_base(device: Device, indices: Any, base: int, dtype: Any) -> Any:
    """Subtract ``base`` from (n,) u32 ``indices``; the result is u32 or u16."""
    out = device.empty(indices.size, dtype)
    name = f"subtract_base_u{8 * out.dtype.itemsize}"
    sizes = np.uint32(indices.size), np.uint32(base)
    device.launch("bits", name, blocks_for(indices.size, THREADS), indices, *sizes, out)
    return out


def find_nonfinite(device: Device, words: Any, infinity: int) -> Any:
    """Find the first NaN or Inf among (n,) raw bits.

    Returns (1,) u32, its position or ``NOWHERE``. ``infinity`` is the key of infinity.
    """
    first = device.put(np.array([NOWHERE], np.uint32))
    name = f"nonfinite_u{8 * words.dtype.itemsize}"
    blocks = blocks_for(words.size, 16 * THREADS, _MAX_BLOCKS)
    device.launch("bits", name, blocks, words, np.uint32(words.size), np.uint64(infinity), first)
    return first
