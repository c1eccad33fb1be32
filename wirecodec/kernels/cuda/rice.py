"""Launch ``rice.cu``: ascending indices to a section, and back (formats/spec/index/rice.md).

A section is u32 words on the device, with capacity for the longest. Its length in words is returned with it.
If a section is invalid, ``decode`` sets a flag, and the CPU's codec raises the error.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from wirecodec.kernels.cuda.device import THREADS, Device, blocks_for
from wirecodec.kernels.layout import RICE_BLOCK, RICE_SPAN

_WARPS = THREADS // 32


def encode(device: Device, indices: Any, d: int) -> tuple[Any, Any]:
    """Encode (r,) u32 ``indices`` as a section, 0 < r < d.

    Return the section and its words, (1,) u32.
    """
    r = indices.size
    spans, blocks = blocks_for(r, RICE_SPAN), blocks_for(r, RICE_BLOCK)
    directory = -(-(48 * (spans - 1) + 5 * blocks) // 32)
    # With the best parameter an index takes at most log2(d/r) + 3 bits. Each block and each span is
    # rounded up to a word.
    longest = directory + -(-r * ((d // r).bit_length() + 4) // 32) + blocks + spans
    parameters, quotients = device.empty(blocks, np.uint8), device.empty(blocks, np.uint32)
    starts, words = device.empty(spans + 1, np.uint32), device.empty(longest, np.uint32)
    n = np.uint32(r)
    device.launch("rice", "rice_plan", blocks_for(blocks, _WARPS), indices, n, parameters, quotients)
    device.launch("rice", "rice_layout", 1, parameters, quotients, n, starts)
    blocks = blocks_for(directory, THREADS)
    device.launch("rice", "rice_directory", blocks, indices, n, parameters, starts, words)
    device.launch("rice", "rice_write", spans, indices, n, parameters, starts, words)
    return words, starts[spans:]


def decode(device: Device, words: Any, d: int, r: int) -> tuple[Any, Any]:
    """Decode a section to (r,) u32 indices; return them and (1,) u32, whether a check failed."""
    spans, blocks = blocks_for(r, RICE_SPAN), blocks_for(r, RICE_BLOCK)
    indices, bad = device.empty(r, np.uint32), device.empty(1, np.uint32)
    if words.size < -(-(48 * (spans - 1) + 5 * blocks) // 32):
        return indices, device.put(np.ones(1, np.uint32))
    parameters, starts = device.empty(blocks, np.uint8), device.empty(spans + 1, np.uint32)
    device.clear(bad)
    size = np.uint32(words.size), np.uint32(r)
    device.launch("rice", "rice_open", 1, words, *size, parameters, starts, bad)
    both = np.uint32(d), np.uint32(r)
    device.launch("rice", "rice_read", spans, words, parameters, starts, *both, indices, bad)
    return indices, bad
