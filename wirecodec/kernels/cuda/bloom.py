"""Launching ``bloom.cu``: a filter of indices, all that it holds, and a draw from that (policies p0 and p1).

Policy p2 sorts sets that conflict, which is done on the host.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from wirecodec.kernels.cuda.bits import positions
from wirecodec.kernels.cuda.device import THREADS, Device, blocks_for
from wirecodec.kernels.cuda.prng import stream_words

__all__ = ["held", "inserted", "query", "sampled"]


def inserted(device: Device, indices: Any, windows: int, nbytes: int) -> Any:
    """A filter of ``nbytes``, a multiple of 8, as u64 words, that holds (n,) u32 ``indices``."""
    words = device.empty(nbytes // 8, np.uint64)
    device.clear(words)
    blocks, n = blocks_for(indices.size, THREADS), np.uint32(indices.size)
    size = np.uint64(words.size)
    device.launch("bloom", "bloom_insert", blocks, indices, n, np.uint32(windows), size, words)
    return words


def query(device: Device, words: Any, windows: int, d: int) -> tuple[Any, Any]:
    """Which of 0 … d-1 a filter holds, a bitmap in u64 words; and (1,) u32, how many."""
    bitmap, found = device.empty(blocks_for(d, 64), np.uint64), device.empty(1, np.uint32)
    device.clear(found)
    blocks = blocks_for(bitmap.size, THREADS)
    both = np.uint32(windows), np.uint32(d)
    device.launch("bloom", "bloom_query", blocks, words, np.uint64(words.size), *both, bitmap, found)
    return bitmap, found


def held(device: Device, bitmap: Any, d: int, total: int) -> Any:
    """(total,) u32, the elements of a bitmap, ascending."""
    return positions(device, bitmap.view(np.uint32), d, total)[0]


def sampled(device: Device, elements: Any, r: int, stream: Any, count: Any = None) -> Any:
    """(r,) of (n,) u32 ``elements``, or of the first ``count[0]`` >= r, by selection sampling.

    ``stream`` seeds the draws, a u64 or (1,) u64 on the device.
    """
    out = device.empty(r, np.uint32)
    size = np.uint32(elements.size), count, np.uint32(r)
    device.launch("bloom", "bloom_sample", 1, elements, *size, *stream_words(stream), out)
    return out
