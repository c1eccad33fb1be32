"""Launch ``digest.cu``: digests of arrays (formats/spec/patch.md), and the changes between two.

Arrays are unsigned integers on the device, of 1, 2, 4 or 8 bytes, and begin at any element.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from wirecodec.kernels.cuda.bits import find_set_bits
from wirecodec.kernels.cuda.device import THREADS, Device, blocks_for

_TILE = 32 * THREADS * 8
"""Bytes per block of the kernels that read whole arrays."""


def _zeros(device: Device, count: int) -> Any:
    """Return (count,) u64 on the device."""
    made = device.empty(count, np.uint64)
    device.clear(made)
    return made


def sum_words(device: Device, bits: Any) -> int:
    """Add up the mixed words of (size,) elements; waits for the device."""
    total = _zeros(device, 1)
    name, size = f"digest_u{8 * bits.dtype.itemsize}", np.uint64(bits.size)
    device.launch("digest", name, blocks_for(bits.nbytes, _TILE), bits, size, total)
    return int(device.get(total)[0])


def find_changes(device: Device, old: Any, new: Any, *, digests: bool) -> tuple[Any, tuple[int, int]]:
    """Find the elements that differ, and add up the mixed words of both arrays; waits for the device.

    Args:
        device: where the arrays are.
        old: (size,) elements, size < 2^32.
        new: the same.
        digests: whether the sums are wanted; otherwise they are 0.

    Returns (r,) u32 positions on the device, ascending, and the sums of ``old`` and ``new``, modulo 2^64.
    """
    bitmap, found = device.empty(-(-old.size // 32), np.uint32), _zeros(device, 3)
    name, sizes = f"compare_u{8 * old.dtype.itemsize}", (np.uint64(old.size), np.uint32(digests))
    device.launch("digest", name, blocks_for(old.nbytes, _TILE), old, new, *sizes, bitmap, found)
    count, before, moved = device.get(found).tolist()
    indices = device.empty(0, np.uint32)
    if count:
        indices, _ = find_set_bits(device, bitmap, min(old.size, 2**32 - 1), count)
    return indices, (before, before + moved & 2**64 - 1)


def sum_change(device: Device, bits: Any, indices: Any, values: Any) -> int:
    """Return by how much ``sum_words`` changes if elements are replaced; waits for the device.

    Args:
        device: where the arrays are.
        bits: (size,) elements.
        indices: (r,) u32, ascending, below size.
        values: (r,) of the type of ``bits``.
    """
    moved = _zeros(device, 1)
    name, size = f"change_u{8 * bits.dtype.itemsize}", np.uint64(bits.size)
    given = bits, size, indices, values, np.uint32(indices.size)
    device.launch("digest", name, blocks_for(indices.size, THREADS), *given, moved)
    return int(device.get(moved)[0])
