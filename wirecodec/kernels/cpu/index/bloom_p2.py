"""Kernels of the Bloom codec's policy p2 (formats/spec/index/bloom.md), in the order of its steps.

Items are the elements that a filter holds, ascending u32; the highest bit flags the selected ones. Steps that
do not depend on order process a group of 64 elements at once. Bitmaps of the filter's bits are padded like
the filter, and bits written past the end are folded back onto the start.
"""

from __future__ import annotations

import numpy as np

from wirecodec.arrays import Array
from wirecodec.kernels.compiler.jit import inline, kernel
from wirecodec.kernels.cpu.index.bloom import next_window, seed_of
from wirecodec.kernels.cpu.prng import draw32
from wirecodec.kernels.cpu.simd.words import load64, popcount, rotate_left, store64
from wirecodec.kernels.layout import BLOOM_PAD

U32 = np.uint32
U64 = np.uint64

_HIGHEST_BIT = U64(1 << 63)
_SELECTED = 0x80000000
_ELEMENT_BITS = 0x7FFFFFFF


@inline
def _fold(bits: Array) -> None:
    """Merge the two copies of the first bytes of a padded bitmap."""
    length = bits.size - BLOOM_PAD
    for byte in range(BLOOM_PAD - 1):
        bits[byte] |= bits[length + byte]
        bits[length + byte] = bits[byte]


@kernel
def mark_hits(items: Array, k: int, once: Array, twice: Array) -> None:
    """Mark the bits that items map to, and those that several map to, in two zeroed bitmaps."""
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
def flag_certain(items: Array, k: int, twice: Array) -> int:
    """Flag the items that no other item shares a bit with, and return their number."""
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
                items[n] |= U32(_SELECTED)
                found += 1
    return found


@kernel
def mark_explained(items: Array, k: int, explained: Array, doubtful: Array) -> int:
    """Mark the bits of flagged items, and the remaining bits that other items map to.

    Args:
        items: (n,) u32, flagged if certain.
        k: windows per element.
        explained: bitmap, zeroed; the bits of flagged items are set.
        doubtful: bitmap, zeroed; the bits of other items that are not explained are set.

    Returns:
        The number of pairs of an unflagged item and a window that map to a doubtful bit.
    """
    length = explained.size - BLOOM_PAD
    pairs = 0
    for selected in (True, False):
        i = 0
        while i < items.size:
            group = (items[i] & U32(_ELEMENT_BITS)) >> U32(6)
            members = U64(0)
            while i < items.size and (items[i] & U32(_ELEMENT_BITS)) >> U32(6) == group:
                if (items[i] >= U32(_SELECTED)) == selected:
                    members |= U64(1) << U64(items[i] & U32(63))
                i += 1
            if members == U64(0):
                continue
            z = seed_of(group)
            word = U64(0)
            for j in range(k):
                at, rotation, z, word = next_window(j, z, word, U64(length))
                bits = rotate_left(members, U64(64) - rotation)
                if selected:
                    store64(explained, at, load64(explained, at) | bits)
                else:
                    bits &= ~load64(explained, at)
                    pairs += popcount(bits)
                    store64(doubtful, at, load64(doubtful, at) | bits)
        _fold(explained if selected else doubtful)
    return pairs


@inline
def _bit(at: int, rotation: U64, element: U32, length: U64) -> int:
    """Return the filter bit to which a window maps an element."""
    bit = (at << 3) + np.int64((U64(element) - rotation) & U64(63))
    bits = np.int64(length) << 3
    return bit - bits if bit >= bits else bit


@kernel
def count_members(items: Array, k: int, doubtful: Array, ranks: Array, starts: Array) -> None:
    """Count the members of each doubtful bit's list.

    Args:
        items: (n,) u32, flagged if certain.
        k: windows per element.
        doubtful: bitmap of the bits that have a list.
        ranks: (⌈bits/64⌉,) u32, written: the number of doubtful bits before each word.
        starts: (lists + 1,) u32, zeroed; ``starts[n + 1]`` becomes the length of list n.
    """
    length = doubtful.size - BLOOM_PAD
    before = 0
    for n in range(ranks.size):
        ranks[n] = before
        before += popcount(load64(doubtful, n << 3))
    for i in range(items.size):
        if items[i] < U32(_SELECTED):
            z = seed_of(items[i] >> U32(6))
            word = U64(0)
            for j in range(k):
                at, rotation, z, word = next_window(j, z, word, U64(length))
                bit = _bit(at, rotation, items[i], U64(length))
                below = load64(doubtful, (bit >> 6) << 3) << U64(63 - (bit & 63))
                if below >= _HIGHEST_BIT:
                    starts[np.int64(ranks[bit >> 6]) + popcount(below)] += U32(1)


@kernel
def fill_lists(items: Array, k: int, doubtful: Array, ranks: Array, starts: Array, members: Array) -> None:
    """Fill the lists; list n becomes ``members[starts[n - 1] : starts[n]]``, and list 0 begins at 0.

    Args:
        items: as in ``count_members``.
        k: as in ``count_members``.
        doubtful: as in ``count_members``.
        ranks: from ``count_members``.
        starts: (lists,) u32, the start of each list; overwritten with its end.
        members: (pairs,) u32, written: positions in ``items``, ascending within a list.
    """
    length = doubtful.size - BLOOM_PAD
    for i in range(items.size):
        if items[i] < U32(_SELECTED):
            z = seed_of(items[i] >> U32(6))
            word = U64(0)
            for j in range(k):
                at, rotation, z, word = next_window(j, z, word, U64(length))
                bit = _bit(at, rotation, items[i], U64(length))
                below = load64(doubtful, (bit >> 6) << 3) << U64(63 - (bit & 63))
                if below >= _HIGHEST_BIT:
                    slot = np.int64(ranks[bit >> 6]) + popcount(below) - 1
                    members[starts[slot]] = i
                    starts[slot] += U32(1)


@kernel
def sort_by_length(lengths: Array, order: Array) -> None:
    """Sort the lists by (length, number) into u32 ``order``."""
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
def draw_members(
    items: Array, ends: Array, members: Array, order: Array, need: int, low: U32, high: U32
) -> int:
    """Draw one item of every list without a flagged one, until ``need`` are drawn; return their number.

    Args:
        items: (n,) u32, flagged if certain.
        ends: (lists,) u32, the end of each list in ``members``.
        members: from ``fill_lists``.
        order: (lists,) u32, the order in which lists are visited.
        need: number of items still to select.
        low: low half of the random stream.
        high: high half of the random stream.
    """
    drawn = 0
    for q in range(order.size):
        if drawn == need:
            break
        stop = np.int64(ends[order[q]])
        start = np.int64(ends[order[q] - 1]) if order[q] > 0 else np.int64(0)
        free = True
        for n in range(start, stop):
            free &= items[members[n]] < U32(_SELECTED)
        if free:
            rank = (U64(draw32(low, high, U32(drawn))) * U64(stop - start)) >> U64(32)
            items[members[start + np.int64(rank)]] |= U32(_SELECTED)
            drawn += 1
    return drawn


@kernel
def list_selected(items: Array, need: int, drawn: int, low: U32, high: U32, out: Array) -> int:
    """List the flagged items and ``need`` others, drawn by selection sampling, ascending.

    Args:
        items: (n,) u32, flagged if selected.
        need: number of others to draw.
        drawn: number of draws so far.
        low: low half of the random stream.
        high: high half of the random stream.
        out: (flagged + need,) u32, written.

    Returns:
        The number of items listed.
    """
    left = 0
    for i in range(items.size):
        left += items[i] < U32(_SELECTED)
    n = 0
    i = 0
    while i < items.size and n < out.size:
        take = items[i] >= U32(_SELECTED)
        if not take:
            if need > 0:
                rank = np.int64((U64(draw32(low, high, U32(drawn))) * U64(left)) >> U64(32))
                take = rank < need
                need -= take
                drawn += 1
            left -= 1
        if take:
            out[n] = items[i] & U32(_ELEMENT_BITS)
            n += 1
        i += 1
    return n
