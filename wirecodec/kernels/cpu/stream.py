"""Passes over large arrays whose results bypass the caches, and a gather of elements that did.

An ordinary store reads its cache line first. For results that are not read again soon, that doubles the
traffic of the writes.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from wirecodec.arrays import Array
from wirecodec.kernels.compiler.jit import kernel
from wirecodec.kernels.cpu.simd.floats import add_floats
from wirecodec.kernels.cpu.simd.memory import prefetch, prefetch_ahead, store_fence, stream_store
from wirecodec.kernels.cpu.simd.vector import extract_lane, load, mask_to_bits

LANES = 64
PREFETCHED = 1024
"""Elements between a prefetch and its load."""
PREFETCHED_INDICES = 48
"""The same, for single elements."""
BLOCK = 1024
"""Elements that are composed in the cache before they are stored."""
U64 = np.uint64


@kernel
def add_streamed(a: Array, b: Array, out: Array, infinity: Any) -> bool:
    """Compute out = a + b of floats, given as their bits; return whether all sums are finite.

    Args:
        a: (n,) unsigned integers.
        b: (n,).
        out: (n,) aligned to 64 bytes.
        infinity: the bits of Inf.
    """
    wrong = U64(0)
    whole = a.size & ~(LANES - 1)
    for at in range(0, whole, LANES):
        prefetch_ahead(a, at + PREFETCHED, LANES)
        prefetch_ahead(b, at + PREFETCHED, LANES)
        total = add_floats(load(a, at, LANES), load(b, at, LANES))
        wrong |= mask_to_bits((total << 1) >= (U64(infinity) << U64(1)))
        stream_store(out, at, total)
    store_fence()
    for i in range(whole, a.size):
        total = add_floats(load(a, i, 1), load(b, i, 1))
        wrong |= mask_to_bits((total << 1) >= (U64(infinity) << U64(1)))
        out[i] = extract_lane(total, 0)
    return wrong == U64(0)


@kernel
def clear(words: Array) -> None:
    """Set u64 words to 0; the array is aligned to 64 bytes."""
    whole = words.size & ~(LANES - 1)
    for at in range(0, whole, LANES):
        stream_store(words, at, load(words, 0, LANES) & 0)
    store_fence()
    for i in range(whole, words.size):
        words[i] = U64(0)


@kernel
def take(x: Array, indices: Array, values: Array) -> None:
    """Copy the elements at indices to ``values``, and set them to 0."""
    last = indices.size - 1
    for i in range(indices.size):
        prefetch(x, np.int64(indices[min(i + PREFETCHED_INDICES, last)]), 1)
        at = np.int64(indices[i])
        values[i] = x[at]
        x[at] = 0


@kernel
def scatter(out: Array, first: int, indices: Array, values: Array) -> None:
    """Set an array to 0, except for values at ascending indices.

    Args:
        out: (n,) unsigned integers.
        first: an element that is aligned to 64 bytes.
        indices: (k,) below n.
        values: (k,) of the type of ``out``.
    """
    block = np.zeros(BLOCK, out.dtype)
    at = 0
    whole = max(first, first + ((out.size - first) & ~(BLOCK - 1)))
    for i in range(min(first, out.size)):
        out[i] = 0
    while at < indices.size and np.int64(indices[at]) < first:
        out[np.int64(indices[at])] = values[at]
        at += 1
    for start in range(first, whole, BLOCK):
        begin = at
        while at < indices.size and np.int64(indices[at]) < start + BLOCK:
            block[np.int64(indices[at]) - start] = values[at]
            at += 1
        for i in range(0, BLOCK, LANES):
            stream_store(out, start + i, load(block, i, LANES))
        for i in range(begin, at):
            block[np.int64(indices[i]) - start] = 0
    store_fence()
    for i in range(whole, out.size):
        out[i] = 0
    while at < indices.size:
        out[np.int64(indices[at])] = values[at]
        at += 1
