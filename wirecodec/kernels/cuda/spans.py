"""Launching ``rice.cu`` and ``elias_fano.cu``: ascending indices to sections, and back.

A section is u32 words in the device's memory with room for the longest; how many it takes stands beside it.
Where ``count`` is given the indices are the first count[0] of those, or none, and the section has no words.
What a reader must refuse sets a flag: the CPU's codec says then what it is.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from wirecodec.kernels.cuda.device import THREADS, Device, blocks_for
from wirecodec.kernels.layout import RICE_BLOCK, RICE_SPAN

__all__ = ["elias_fano", "elias_fano_indices", "rice", "rice_indices"]

_WARPS = THREADS // 32


def _most_bits(r: int, d: int, more: int, count: Any) -> int:
    """Of r indices below d: those of ⌊d/r⌋ and ``more`` each. Half as many take at most one more each."""
    r = min(r, d)
    return r * ((d // r).bit_length() + more + (count is not None))


def rice(device: Device, indices: Any, d: int, count: Any = None) -> tuple[Any, Any]:
    """The section (formats/spec/index/rice.md) of (r,) u32 ``indices``, 0 < r < d; (1,) u32, its words."""
    r = indices.size
    spans, blocks = blocks_for(r, RICE_SPAN), blocks_for(r, RICE_BLOCK)
    head = -(-(48 * (spans - 1) + 5 * blocks) // 32)
    # With the parameter of least size an index takes at most log2(d/r) + 3 bits, and blocks and
    # spans a word more.
    longest = head + -(-_most_bits(r, d, 4, count) // 32) + blocks + spans
    parameters, quotients = device.empty(blocks, np.uint8), device.empty(blocks, np.uint32)
    starts, words = device.empty(spans + 1, np.uint32), device.empty(longest, np.uint32)
    taken, n = device.empty(1, np.uint32), np.uint32(r)
    device.launch("rice", "rice_plan", blocks_for(blocks, _WARPS), indices, n, count, parameters, quotients)
    device.launch("rice", "rice_layout", 1, parameters, quotients, n, count, starts, taken)
    blocks = blocks_for(head, THREADS)
    device.launch("rice", "rice_directory", blocks, indices, n, count, parameters, starts, words)
    device.launch("rice", "rice_write", spans, indices, n, count, parameters, starts, words)
    return words, taken


def rice_indices(device: Device, words: Any, d: int, r: int) -> tuple[Any, Any]:
    """(r,) u32 indices of a section; and (1,) u32, whether a check failed."""
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


def elias_fano(device: Device, indices: Any, d: int, count: Any = None) -> tuple[Any, Any]:
    """The section (formats/spec/index/elias-fano.md) of (r,) u32 ``indices``; and (1,) u32, its words."""
    r = indices.size
    spans = blocks_for(r, RICE_SPAN)
    # A span of n takes n · b and at most 3n bits, where n · 2^b is at most its room; they take most
    # where all have the same.
    longest = spans - 1 + -(-_most_bits(r, d, 3, count) // 32) + 18 * spans
    words = device.empty(longest, np.uint32)
    parameters, starts = device.empty(spans, np.uint8), device.empty(spans + 1, np.uint32)
    bad, taken = device.empty(1, np.uint32), device.empty(1, np.uint32)
    device.clear(bad)
    n = np.uint32(r)
    device.launch("elias_fano", "elias_bases", blocks_for(spans - 1, THREADS), indices, n, count, words)
    device.launch("elias_fano", "elias_layout", 1, words, np.uint32(d), n, count, parameters, starts, bad)
    device.launch("elias_fano", "elias_write", spans, indices, n, count, parameters, starts, words, taken)
    return words, taken


def elias_fano_indices(device: Device, words: Any, d: int, r: int) -> tuple[Any, Any]:
    """(r,) u32 indices of a section; and (1,) u32, whether a check failed."""
    spans = blocks_for(r, RICE_SPAN)
    indices, bad = device.empty(r, np.uint32), device.empty(1, np.uint32)
    if words.size < spans:
        return indices, device.put(np.ones(1, np.uint32))
    parameters, starts = device.empty(spans, np.uint8), device.empty(spans + 1, np.uint32)
    device.clear(bad)
    both = np.uint32(d), np.uint32(r)
    device.launch("elias_fano", "elias_layout", 1, words, *both, None, parameters, starts, bad)
    rest = words[spans - 1 :]
    size = np.uint32(rest.size)
    device.launch(
        "elias_fano", "elias_read", spans, rest, size, words, *both, parameters, starts, indices, bad
    )
    return indices, bad
