"""Launch ``elias_fano.cu``: ascending indices to a section, and back (formats/spec/index/elias-fano.md).

A section is u32 words on the device, with capacity for the longest. Its length in words is returned with it.
If a section is invalid, ``decode`` sets a flag, and the CPU's codec raises the error.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from wirecodec.kernels.cuda.device import THREADS, Device, blocks_for
from wirecodec.kernels.layout import RICE_SPAN


def encode(device: Device, indices: Any, d: int) -> tuple[Any, Any]:
    """Encode (r,) u32 ``indices`` as a section.

    Return the section and its words, (1,) u32.
    """
    r = indices.size
    spans = blocks_for(r, RICE_SPAN)
    # A span of n indices takes n · b and at most 3n bits, and n · 2^b is at most the span's range. The sum is
    # largest if all spans are alike.
    longest = spans - 1 + -(-r * ((d // r).bit_length() + 3) // 32) + 18 * spans
    words = device.empty(longest, np.uint32)
    parameters, starts = device.empty(spans, np.uint8), device.empty(spans + 1, np.uint32)
    bad, length = device.empty(1, np.uint32), device.empty(1, np.uint32)
    device.clear(bad)
    n = np.uint32(r)
    device.launch("elias_fano", "elias_bases", blocks_for(spans - 1, THREADS), indices, n, words)
    device.launch("elias_fano", "elias_layout", 1, words, np.uint32(d), n, parameters, starts, bad)
    device.launch("elias_fano", "elias_write", spans, indices, n, parameters, starts, words, length)
    return words, length


def decode(device: Device, words: Any, d: int, r: int) -> tuple[Any, Any]:
    """Decode a section to (r,) u32 indices; return them and (1,) u32, whether a check failed."""
    spans = blocks_for(r, RICE_SPAN)
    indices, bad = device.empty(r, np.uint32), device.empty(1, np.uint32)
    if words.size < spans:
        return indices, device.put(np.ones(1, np.uint32))
    parameters, starts = device.empty(spans, np.uint8), device.empty(spans + 1, np.uint32)
    device.clear(bad)
    both = np.uint32(d), np.uint32(r)
    device.launch("elias_fano", "elias_layout", 1, words, *both, parameters, starts, bad)
    rest = words[spans - 1 :]
    size = np.uint32(rest.size)
    device.launch(
        "elias_fano", "elias_read", spans, rest, size, words, *both, parameters, starts, indices, bad
    )
    return indices, bad
