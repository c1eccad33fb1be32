"""Launch ``bloom.cu``: insert into a filter, list its elements, and sample them (policies p0 and p1).

Policy p2 sorts conflict sets, which the host does.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from wirecodec.kernels.cuda.bits import find_set_bits
from wirecodec.kernels.cuda.device import THREADS, Device, blocks_for
from wirecodec.kernels.cuda.prng import stream_words


def insert(device: Device, indices: Any, windows: int, nbytes: int) -> Any:
    """Build a filter of ``nbytes``, a multiple of 8, from (n,) u32 ``indices``; return it as u64."""
    words = device.empty(nbytes // 8, np.uint64)
    device.clear(words)
    blocks, n = blocks_for(indices.size, THREADS), np.uint32(indices.size)
    size = np.uint64(words.size)
    device.launch("bloom", "bloom_insert", blocks, indices, n, np.uint32(windows), size, words)
    return words


def query(device: Device, words: Any, windows: int, d: int) -> tuple[Any, Any]:
    """Test the elements 0 … d-1.

    Return the bitmap of those that the filter holds, u64, and their number, (1,) u32.
    """
    bitmap, found = device.empty(blocks_for(d, 64), np.uint64), device.empty(1, np.uint32)
    device.clear(found)
    blocks = blocks_for(bitmap.size, THREADS)
    both = np.uint32(windows), np.uint32(d)
    device.launch("bloom", "bloom_query", blocks, words, np.uint64(words.size), *both, bitmap, found)
    return bitmap, found


def list_elements(device: Device, bitmap: Any, d: int, total: int) -> Any:
    """List the elements of a bitmap, (total,) u32, ascending."""
    return find_set_bits(device, bitmap.view(np.uint32), d, total)[0]


def sample(device: Device, elements: Any, r: int, stream: int) -> Any:
    """Select (r,) of (n,) u32 ``elements``, n >= r, by selection sampling.

    The u64 ``stream`` seeds the draws.
    """
    out = device.empty(r, np.uint32)
    size = np.uint32(elements.size), np.uint32(r)
    device.launch("bloom", "bloom_sample", 1, elements, *size, *stream_words(stream), out)
    return out
