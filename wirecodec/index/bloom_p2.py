"""Policy p2 of the Bloom codec: which of the elements that a filter holds were inserted.

DeepReduce's Algorithm 1, with what it leaves open decided (formats/spec/index/bloom.md): an item that is
alone on a bit is certain; of the lists of items on the bits that no certain item explains, ascending by
length, each that has no chosen item yet draws one.
"""

from __future__ import annotations

import numpy as np

from wirecodec.arrays import Array, Bytes
from wirecodec.errors import Invalid
from wirecodec.kernels.layout import BLOOM_PAD

__all__ = ["P2_PASSES", "chosen", "most_items"]

P2_PASSES = 5
"""Passes over the windows of all items, which ``DecodeLimits.max_work`` counts."""

_SOME_ITEMS, _SOME_PAIRS = 128, 4096


def most_items(count: int) -> int:
    """Return how many positives p2 accepts if ``count`` elements were inserted."""
    return (5 * count + _SOME_ITEMS) // 2


def chosen(filter_: Bytes, k: int, d: int, total: int, count: int, stream: int) -> Array:
    """The ``count`` u32 elements that were inserted as far as one can tell, ascending.

    Args:
        filter_: padded.
        k: windows of an element.
        d: elements of the chunk.
        total: how many of them the filter holds, at least ``count``.
        count: how many were inserted.
        stream: of the draws.

    Raises Invalid, above all where items or conflicts are too many: then one cannot tell, and memory is
    bounded by ``count``.
    """
    from wirecodec.kernels.cpu.index import bloom, bloom_p2

    if total > most_items(count):
        raise Invalid("bloom-conflicts", f"{total} positives for {count} elements")
    halves = np.uint32(stream & 0xFFFFFFFF), np.uint32(stream >> 32)
    items = np.empty(total, np.uint32)
    bloom.fill(filter_, k, d, 0, items)
    explained, doubtful = np.zeros(filter_.size, np.uint8), np.zeros(filter_.size, np.uint8)
    bloom_p2.hits(items, k, explained, doubtful)
    found = bloom_p2.certain(items, k, doubtful)
    if found > count:
        raise Invalid("bloom-certain", f"{found} elements are certain; {count} were inserted")
    drawn = 0
    if found < count:
        explained[:], doubtful[:] = 0, 0
        pairs = bloom_p2.explain(items, k, explained, doubtful)
        if pairs > 5 * count + _SOME_PAIRS:
            raise Invalid("bloom-conflicts", f"{pairs} conflicts over {count} elements")
        drawn = _drawn(items, k, doubtful, pairs, count - found, *halves)
    indices = np.empty(count, np.uint32)
    bloom_p2.top_up(items, count - found - drawn, drawn, *halves, indices)
    return indices


def _drawn(
    items: Array, k: int, doubtful: Bytes, pairs: int, need: int, low: np.uint32, high: np.uint32
) -> int:
    """Flag one item of every list without a flagged one, up to ``need``; how many were."""
    from wirecodec.kernels.cpu.index import bitmap, bloom_p2

    words = doubtful[:-BLOOM_PAD].view(np.uint64)
    ranks = np.empty(words.size, np.uint32)
    starts = np.zeros(bitmap.count_ones(words) + 1, np.uint32)
    bloom_p2.sizes(items, k, doubtful, ranks, starts)
    order = np.empty(starts.size - 1, np.uint32)
    bloom_p2.by_length(starts[1:], order)
    np.cumsum(starts, out=starts)
    members = np.empty(pairs, np.uint32)
    bloom_p2.lists(items, k, doubtful, ranks, starts[:-1], members)
    return int(bloom_p2.draw(items, starts[:-1], members, order, need, low, high))
