"""Policy p2 of the Bloom codec: select the elements that were most likely inserted.

It is Algorithm 1 of DeepReduce (Xu et al. 2021), made deterministic (formats/spec/index/bloom.md) and
improved. An element that shares a bit with no other positive is certain. The bits that no certain element
explains have lists of the elements that map to them. In ascending order of length, each list without a
selected element draws one. As printed, the algorithm draws from all lists. Cut to as many elements, it keeps
fewer of the inserted ones: 74 % in place of 83 % at a rate of 0.01 (``python -m benchmarks.papers``).
"""

from __future__ import annotations

import numpy as np

from wirecodec.arrays import Array, Bytes
from wirecodec.errors import Invalid
from wirecodec.kernels.layout import BLOOM_PAD

P2_PASSES = 5
"""Passes over the windows of all positives, which ``DecodeLimits.max_work`` counts."""

_BASE_POSITIVES, _BASE_CONFLICTS = 128, 4096
"""Terms of the limits that do not grow with the number of inserted elements."""


def max_positives(count: int) -> int:
    """Return how many positives p2 accepts if ``count`` elements were inserted."""
    return (5 * count + _BASE_POSITIVES) // 2


def select_inserted(
    filter_: Bytes, k: int, d: int, total: int, count: int, stream: int, *, bounded: bool = True
) -> Array:
    """Return (count,) u32 elements, ascending, that were most likely inserted.

    Args:
        filter_: (length + BLOOM_PAD,) u8, padded.
        k: windows per element.
        d: elements of the chunk.
        total: number of elements that the filter holds, at least ``count``.
        count: number of inserted elements.
        stream: u64 seed of the draws.
        bounded: False to measure filters that a reader refuses; memory is then proportional to k · ``total``.

    Raises:
        Invalid: there are too many positives or conflicts, which bounds memory by ``count``; or more elements
            are certain than were inserted.
    """
    from wirecodec.kernels.cpu.index import bloom, bloom_p2

    if bounded and total > (limit := max_positives(count)):
        raise Invalid("bloom-conflicts", f"{total} positives for {count} elements; the limit is {limit}")
    halves = np.uint32(stream & 0xFFFFFFFF), np.uint32(stream >> 32)
    items = np.empty(total, np.uint32)
    bloom.fill(filter_, k, d, 0, items)
    explained, doubtful = np.zeros(filter_.size, np.uint8), np.zeros(filter_.size, np.uint8)
    bloom_p2.mark_hits(items, k, explained, doubtful)
    certain = bloom_p2.flag_certain(items, k, doubtful)
    if certain > count:
        raise Invalid("bloom-certain", f"{certain} elements are certain; {count} were inserted")
    drawn = 0
    if certain < count:
        explained[:], doubtful[:] = 0, 0
        pairs = bloom_p2.mark_explained(items, k, explained, doubtful)
        if bounded and pairs > (limit := 5 * count + _BASE_CONFLICTS):
            raise Invalid("bloom-conflicts", f"{pairs} conflicts over {count} elements; the limit is {limit}")
        drawn = _draw_from_lists(items, k, doubtful, pairs, count - certain, *halves)
    indices = np.empty(count, np.uint32)
    bloom_p2.list_selected(items, count - certain - drawn, drawn, *halves, indices)
    return indices


def _draw_from_lists(
    items: Array, k: int, doubtful: Bytes, pairs: int, need: int, low: np.uint32, high: np.uint32
) -> int:
    """Flag one item of every list without a flagged one, at most ``need``; return their number."""
    from wirecodec.kernels.cpu.index import bitmap, bloom_p2

    words = doubtful[:-BLOOM_PAD].view(np.uint64)
    ranks = np.empty(words.size, np.uint32)
    starts = np.zeros(bitmap.count_ones(words) + 1, np.uint32)
    bloom_p2.count_members(items, k, doubtful, ranks, starts)
    order = np.empty(starts.size - 1, np.uint32)
    bloom_p2.sort_by_length(starts[1:], order)
    np.cumsum(starts, out=starts)
    members = np.empty(pairs, np.uint32)
    bloom_p2.fill_lists(items, k, doubtful, ranks, starts[:-1], members)
    return int(bloom_p2.draw_members(items, starts[:-1], members, order, need, low, high))
