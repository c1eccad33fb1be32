"""The loops of the Bloom codec's policy p2 (formats/spec/index/bloom.md), in the order of its steps.

Items are the elements that a filter holds, ascending u32, with a flag in their highest bit once they are
chosen. Steps that need no order go by groups, a word of 64 items at once. Bitmaps of the filter's bits are
padded like it; what was written past the end is folded back onto the start.
"""

from __future__ import annotations

import numpy as np

from wirecodec.arrays import Array
from wirecodec.kernels.cpu.index.bloom import next_window, seed_of
from wirecodec.kernels.cpu.jit import inline, kernel
from wirecodec.kernels.cpu.prng import draw32
from wirecodec.kernels.cpu.simd.words import load64, popcount, rotate_left, store64
from wirecodec.kernels.layout import BLOOM_PAD

__all__ = ["by_length", "certain", "draw", "explain", "hits", "lists", "sizes", "top_up"]

U32 = np.uint32
U64 = np.uint64

_TOP = U64(1 << 63)
_CHOSEN = 0x80000000
_ELEMENT = 0x7FFFFFFF


@inline
def _fold(bits: Array) -> None:
    """Unite the two copies of the first bytes of a padded bitmap."""
    length = bits.size - BLOOM_PAD
    for byte in range(BLOOM_PAD - 1):
        bits[byte] |= bits[length + byte]
        bits[length + byte] = bits[byte]


@kernel
def hits(items: Array, k: int, once: Array, twice: Array) -> None:
    """Which bits the items' windows take them to, and which more than once, into zeroed bitmaps."""
    length = once.size - BLOOM_PAD
    i = 0
    while i < items.size:
        group = items[i] >> U32(6)
        members = U64(0)
        while i < items.size and items[i] >> U32(6) == group:
            members |= U64(1) << U64(items[i] & U32(63))
            i += 1
        z = seed_of(group)
        word = U64(0)
        for j in range(k):
            at, rotation, z, word = next_window(j, z, word, U64(length))
            bits = rotate_left(members, U64(64) - rotation)
            before = load64(once, at)
            store64(twice, at, load64(twice, at) | (before & bits))
            store64(once, at, before | bits)
    for byte in range(BLOOM_PAD - 1):
        twice[byte] |= once[byte] & once[length + byte]
    _fold(once)
    _fold(twice)


@kernel
def certain(items: Array, k: int, twice: Array) -> int:
    """Flag the items that are alone on a bit; how many there are."""
    length = twice.size - BLOOM_PAD
    found = 0
    i = 0
    while i < items.size:
        start = i
        group = items[i] >> U32(6)
        while i < items.size and items[i] >> U32(6) == group:
            i += 1
        z = seed_of(group)
        word = U64(0)
        alone = U64(0)
        for j in range(k):
            at, rotation, z, word = next_window(j, z, word, U64(length))
            alone |= ~rotate_left(load64(twice, at), rotation)
        for n in range(start, i):
            if (alone >> U64(items[n] & U32(63))) & U64(1):
                items[n] |= U32(_CHOSEN)
                found += 1
    return found


@kernel
def explain(items: Array, k: int, explained: Array, doubtful: Array) -> int:
    """The bits of the flagged items, and the other bits of the others, into zeroed bitmaps.

    Returns how many pairs of an item that is not flagged and a window lead to a bit that is not explained.
    """
    length = explained.size - BLOOM_PAD
    pairs = 0
    for chosen in (True, False):
        i = 0
        while i < items.size:
            group = (items[i] & U32(_ELEMENT)) >> U32(6)
            members = U64(0)
            while i < items.size and (items[i] & U32(_ELEMENT)) >> U32(6) == group:
                if (items[i] >= U32(_CHOSEN)) == chosen:
                    members |= U64(1) << U64(items[i] & U32(63))
                i += 1
            if members == U64(0):
                continue
            z = seed_of(group)
            word = U64(0)
            for j in range(k):
                at, rotation, z, word = next_window(j, z, word, U64(length))
                bits = rotate_left(members, U64(64) - rotation)
                if chosen:
                    store64(explained, at, load64(explained, at) | bits)
                else:
                    bits &= ~load64(explained, at)
                    pairs += popcount(bits)
                    store64(doubtful, at, load64(doubtful, at) | bits)
        _fold(explained if chosen else doubtful)
    return pairs


@inline
def _bit(at: int, rotation: U64, element: U32, length: U64) -> int:
    """The bit of the filter to which a window takes an element."""
    bit = (at << 3) + np.int64((U64(element) - rotation) & U64(63))
    bits = np.int64(length) << 3
    return bit - bits if bit >= bits else bit


@kernel
def sizes(items: Array, k: int, doubtful: Array, ranks: Array, starts: Array) -> None:
    """How long the list of each doubtful bit is; ``starts[n + 1]`` becomes the length of list n.

    Args:
        items: flagged where they are certain.
        k: windows of an element.
        doubtful: bitmap of the bits that have a list.
        ranks: (⌈bits/64⌉,) u32, written: how many of them lie before each word.
        starts: (lists + 1,) u32, zeroed.
    """
    length = doubtful.size - BLOOM_PAD
    before = 0
    for n in range(ranks.size):
        ranks[n] = before
        before += popcount(load64(doubtful, n << 3))
    for i in range(items.size):
        if items[i] < U32(_CHOSEN):
            z = seed_of(items[i] >> U32(6))
            word = U64(0)
            for j in range(k):
                at, rotation, z, word = next_window(j, z, word, U64(length))
                bit = _bit(at, rotation, items[i], U64(length))
                below = load64(doubtful, (bit >> 6) << 3) << U64(63 - (bit & 63))
                if below >= _TOP:
                    starts[np.int64(ranks[bit >> 6]) + popcount(below)] += U32(1)


@kernel
def lists(items: Array, k: int, doubtful: Array, ranks: Array, starts: Array, members: Array) -> None:
    """Fill the lists; afterwards list n is ``members[starts[n - 1] : starts[n]]``, the first from 0.

    Args:
        items: as for ``sizes``.
        k: as for ``sizes``.
        doubtful: as for ``sizes``.
        ranks: from ``sizes``.
        starts: (lists,) u32, where each list begins; moved to where it ends.
        members: u32, one for each pair: numbers of items, ascending within a list.
    """
    length = doubtful.size - BLOOM_PAD
    for i in range(items.size):
        if items[i] < U32(_CHOSEN):
            z = seed_of(items[i] >> U32(6))
            word = U64(0)
            for j in range(k):
                at, rotation, z, word = next_window(j, z, word, U64(length))
                bit = _bit(at, rotation, items[i], U64(length))
                below = load64(doubtful, (bit >> 6) << 3) << U64(63 - (bit & 63))
                if below >= _TOP:
                    slot = np.int64(ranks[bit >> 6]) + popcount(below) - 1
                    members[starts[slot]] = i
                    starts[slot] += U32(1)


@kernel
def by_length(lengths: Array, order: Array) -> None:
    """The numbers of the lists, ascending by (length, number), into u32 ``order``."""
    longest = 0
    for n in range(lengths.size):
        longest = max(longest, np.int64(lengths[n]))
    firsts = np.zeros(longest + 2, np.uint32)
    for n in range(lengths.size):
        firsts[np.int64(lengths[n]) + 1] += U32(1)
    for length in range(1, firsts.size):
        firsts[length] += firsts[length - 1]
    for n in range(lengths.size):
        order[firsts[lengths[n]]] = n
        firsts[lengths[n]] += U32(1)


@kernel
def draw(items: Array, ends: Array, members: Array, order: Array, need: int, low: U32, high: U32) -> int:
    """Flag one item of every list that has none flagged, until ``need`` are; how many were.

    Args:
        items: flagged where they are certain.
        ends: (lists,) u32, where each list ends in ``members``.
        members: the lists.
        order: in which the lists are visited.
        need: how many items are still to be chosen.
        low: lower half of the stream.
        high: its upper half.
    """
    drawn = 0
    for q in range(order.size):
        if drawn == need:
            break
        stop = np.int64(ends[order[q]])
        start = np.int64(ends[order[q] - 1]) if order[q] > 0 else np.int64(0)
        free = True
        for n in range(start, stop):
            free &= items[members[n]] < U32(_CHOSEN)
        if free:
            rank = (U64(draw32(low, high, U32(drawn))) * U64(stop - start)) >> U64(32)
            items[members[start + np.int64(rank)]] |= U32(_CHOSEN)
            drawn += 1
    return drawn


@kernel
def top_up(items: Array, need: int, drawn: int, low: U32, high: U32, out: Array) -> int:
    """The flagged items into ``out``, and ``need`` of the others by selection sampling, ascending.

    Args:
        items: flagged where they are chosen.
        need: how many more to draw.
        drawn: draws taken so far.
        low: lower half of the stream.
        high: its upper half.
        out: u32, for as many as are flagged and needed.

    Returns how many there are.
    """
    left = 0
    for i in range(items.size):
        left += items[i] < U32(_CHOSEN)
    n = 0
    i = 0
    while i < items.size and n < out.size:
        take = items[i] >= U32(_CHOSEN)
        if not take:
            if need > 0:
                rank = np.int64((U64(draw32(low, high, U32(drawn))) * U64(left)) >> U64(32))
                take = rank < need
                need -= take
                drawn += 1
            left -= 1
        if take:
            out[n] = items[i] & U32(_ELEMENT)
            n += 1
        i += 1
    return n
