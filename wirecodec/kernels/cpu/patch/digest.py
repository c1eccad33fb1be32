"""Kernels of digests (formats/spec/patch.md, "Digests"), and of the changes between two arrays.

A digest is a sum over words of 8 bytes, so that of a changed array follows from the words that changed.
"""

from __future__ import annotations

import numpy as np

from wirecodec.arrays import Array
from wirecodec.kernels.compiler.jit import inline, kernel
from wirecodec.kernels.cpu.simd.memory import copy_bytes, prefetch, view_at
from wirecodec.kernels.cpu.simd.set_bits import store_set_bits
from wirecodec.kernels.cpu.simd.vector import load, mask_to_bits
from wirecodec.kernels.cpu.simd.words import load64, popcount
from wirecodec.kernels.layout import DIGEST_FACTORS, DIGEST_STRIDE

U64 = np.uint64
BLOCK, COPIED = 4096, 16384
"""Elements that are compared, and bytes that are copied, between two sums of their words, while they are in a
near cache."""
FEW = 64
"""Changes of a block from which the sum of all its words takes less time than those of the changes."""
AHEAD = U64(16)
"""Changes ahead whose elements are requested: the processor does not expect such distances by itself."""
STRIDE, (FIRST, SECOND) = U64(DIGEST_STRIDE), map(U64, DIGEST_FACTORS)


@inline
def mix(x: np.uint64) -> np.uint64:
    """Mix a word to which a multiple of ``STRIDE`` was added."""
    x = (x ^ (x >> U64(32))) * FIRST
    x = (x ^ (x >> U64(29))) * SECOND
    return x ^ (x >> U64(32))


@inline
def fold(word: np.uint64, number: np.uint64) -> np.uint64:
    """Mix a word with its number, counted from 1."""
    return mix(word + number * STRIDE)


@inline
def add_words(words: Array, start: int, stop: int, before: np.uint64) -> np.uint64:
    """Add the mixed words from ``start`` to ``stop`` - 1; word 0 has the number ``before`` + 1."""
    total, added = U64(0), (before + U64(start)) * STRIDE
    for j in range(U64(start), U64(stop)):
        added += STRIDE  # a product takes longer than a sum
        total += mix(words[j] + added)
    return total


@kernel
def digest_words(words: Array, first: int) -> np.uint64:
    """Add the mixed words of (n,) u64, the first of which has the number ``first``."""
    return add_words(words, 0, words.size, U64(first) - U64(1))


@inline
def read_word(data: Array, j: np.uint64) -> np.uint64:
    """Return word j of (n,) u8; a last one of fewer than 8 bytes is padded with zeros."""
    at, word = np.int64(j << U64(3)), U64(0)
    if at + 8 <= data.size:
        return load64(data, at)
    for i in range(data.size - 1, at - 1, -1):
        word = (word << U64(8)) | U64(data[i])
    return word


@inline
def add_bytes(
    address: int, size: int, start: np.uint64, stop: np.uint64, words: Array, data: Array
) -> np.uint64:
    """Add the mixed words from ``start`` to ``stop`` - 1 of an array; the last one may be shorter.

    Args:
        address, size: of the array, in bytes. The address is a multiple of 8.
        start, stop: numbers of words.
        words, data: arrays of u64 and of u8, of which the types count.
    """
    whole = min(stop, U64(size) >> U64(3))
    total = add_words(view_at(address, size >> 3, words), start, whole, U64(0))
    if whole < stop:
        total += fold(read_word(view_at(address, size, data), whole), stop)
    return total


@kernel
def digest_arrays(addresses: Array, sizes: Array, out: Array, sums: Array) -> None:
    """Add up the mixed words of each of some arrays, and copy them one after another.

    Args:
        addresses: (n,) i64, of arrays whose memory begins at a multiple of 8 bytes.
        sizes: (n,) i64, bytes.
        out: (bytes of all,) u8, written; (0,) for no copy.
        sums: (n,) u64, written.
    """
    at = 0
    for i in range(addresses.size):
        data, total = view_at(addresses[i], sizes[i], out), U64(0)
        for start in range(0, sizes[i], COPIED):
            stop = min(start + COPIED, sizes[i])
            if out.size:
                copy_bytes(data, start, stop - start, out, at + start)
            first, last = U64(start) >> U64(3), U64(stop + 7) >> U64(3)
            total += add_bytes(addresses[i], sizes[i], first, last, sums, out)
        sums[i] = total
        at += sizes[i]


@inline
def add_moves(old: Array, new: Array, per: np.uint64, found: Array, start: int, stop: int) -> np.uint64:
    """Return by how much the digest of an array changes, if words with changes are replaced.

    Args:
        old, new: (bytes,) u8.
        per: elements of a word.
        found: positions of elements, ascending, of which those from ``start`` to ``stop`` - 1 count.
    """
    moved, last = U64(0), U64(0)  # one more than the last word that was seen
    for i in range(U64(start), U64(stop)):
        j = U64(found[i]) // per
        if j + U64(1) != last:
            last = j + U64(1)
            moved += fold(read_word(new, j), last) - fold(read_word(old, j), last)
    return moved


@kernel
def find_changes(
    addresses: Array,
    sizes: Array,
    digests: int,
    place: Array,
    data: Array,
    found: Array,
    olds: Array,
    news: Array,
    counts: Array,
    sums: Array,
) -> int:
    """Find the elements that differ in pairs of arrays, until the buffer may be full; add up their digests.

    Args:
        addresses: (2, n) i64, of the old and of the new arrays; multiples of 8 bytes.
        sizes: (n,) i64, elements of each.
        digests: 1 to add them up, 0 for changes alone.
        place: (2,) i64: the pair and its element from which to compare, a multiple of ``BLOCK``; moved on.
        data: (0,) u8, of which the type counts.
        found: (m,) u32, m ≥ ``BLOCK`` + 64, written: positions of elements in their array, ascending.
        olds, news: (m,) unsigned, written: the elements there.
        counts: (n,) i64, incremented by the changes of each.
        sums: (2, n) u64, incremented by the mixed words of the old and of the new arrays.

    Returns the number of changes.
    """
    count, part, start = 0, place[0], place[1]
    per = U64(8 // olds.itemsize)
    while part < sizes.size and count + BLOCK + 64 <= found.size:
        size = sizes[part]
        old, new = view_at(addresses[0, part], size, olds), view_at(addresses[1, part], size, olds)
        before, stop = count, min(start + BLOCK, size)
        whole = start + ((stop - start) & ~63)
        for at in range(start, whole, 64):
            differs = mask_to_bits(load(old, at, 64) != load(new, at, 64))
            count += store_set_bits(found, count, differs, np.uint32(at))
        for at in range(whole, stop):
            found[count] = at
            count += np.int64(old[at] != new[at])
        for i in range(U64(before), U64(count)):
            olds[i], news[i] = old[found[i]], new[found[i]]
        counts[part] += count - before
        if digests:
            nbytes, words = size * olds.itemsize, sums[0]
            first, last = U64(start) // per, (U64(stop) + per - U64(1)) // per
            one = add_bytes(addresses[0, part], nbytes, first, last, words, data)
            if count - before < FEW:
                pair = view_at(addresses[0, part], nbytes, data), view_at(addresses[1, part], nbytes, data)
                other = one + add_moves(pair[0], pair[1], per, found, before, count)
            else:
                other = add_bytes(addresses[1, part], nbytes, first, last, words, data)
            sums[0, part] += one
            sums[1, part] += other
        start = stop
        if stop == size:
            part, start = part + 1, 0
    place[0], place[1] = part, start
    return count


@kernel
def digest_changes(
    data: Array, starts: Array, cuts: Array, indices: Array, values: Array, sums: Array
) -> None:
    """Add to the digest of each part of an array by how much it changes if elements are replaced.

    Args:
        data: (bytes,) u8.
        starts: (parts + 1,) i64, first element of each part, and the number of all.
        cuts: (parts + 1,) i64, first change of each part, and r.
        indices: (r,) u32, ascending, of elements.
        values: (r,) unsigned, the new bits.
        sums: (parts,) u64, incremented.
    """
    width = U64(8 * values.itemsize)
    mask, last = U64(0xFFFFFFFFFFFFFFFF) >> (U64(64) - width), U64(64) // width - U64(1)
    to_word, r = U64(popcount(last)), U64(indices.size)
    for part in range(sums.size):
        own = data[starts[part] * values.itemsize : starts[part + 1] * values.itemsize]
        first, i, stop, moved = U64(starts[part]), U64(cuts[part]), U64(cuts[part + 1]), U64(0)
        while i < stop:
            prefetch(data, np.int64(indices[min(i + AHEAD, r - U64(1))]) * values.itemsize, 1)
            j = (U64(indices[i]) - first) >> to_word
            word = read_word(own, j)
            new = word
            while i < stop and (U64(indices[i]) - first) >> to_word == j:
                shift = ((U64(indices[i]) - first) & last) * width
                new = (new & ~(mask << shift)) | (U64(values[i]) << shift)
                i += U64(1)
            moved += fold(new, j + U64(1)) - fold(word, j + U64(1))
        sums[part] += moved


@inline
def take_part(
    bits: Array, first: np.uint64, indices: Array, i: np.uint64, stop: np.uint64, values: Array
) -> None:
    """Read those of elements ``first`` and following that changes i to ``stop`` - 1 name, into ``values``."""
    last = U64(indices.size - 1)
    for k in range(i, stop):
        prefetch(bits, np.int64(U64(indices[min(k + AHEAD, last)]) - first), 1)
        values[k] = bits[U64(indices[k]) - first]


@inline
def digest_part(first: np.uint64, indices: Array, i: np.uint64, stop: np.uint64, bits: Array) -> np.uint64:
    """Add up the digests of pairs i to stop - 1 of a part whose first element has the number ``first``."""
    total = U64(0)
    for k in range(i, stop):
        total += fold(U64(bits[k]), U64(indices[k]) - first + U64(1))
    return total


@kernel
def take(bits: Array, indices: Array, values: Array) -> None:
    """Read elements of (size,) unsigned at (r,) u32 positions into (r,) values."""
    take_part(bits, U64(0), indices, U64(0), U64(indices.size), values)


@kernel
def take_arrays(
    addresses: Array, sizes: Array, starts: Array, cuts: Array, indices: Array, values: Array, sums: Array
) -> None:
    """Read elements of some arrays, as if they followed each other, and add up the digests of those of each.

    Args:
        addresses: (n,) i64, of the arrays.
        sizes: (n,) i64, elements of each.
        starts, cuts, indices: as of ``digest_changes``.
        values: (r,) unsigned, written.
        sums: (n,) u64, written.
    """
    for part in range(sums.size):
        bits, first = view_at(addresses[part], sizes[part], values), U64(starts[part])
        i, stop = U64(cuts[part]), U64(cuts[part + 1])
        take_part(bits, first, indices, i, stop, values)
        sums[part] = digest_part(first, indices, i, stop, values)


@kernel
def digest_pairs(starts: Array, cuts: Array, indices: Array, bits: Array, sums: Array) -> None:
    """Add up the digests of some elements of parts of an array.

    Args:
        starts, cuts, indices: as of ``digest_changes``.
        bits: (r,) unsigned.
        sums: (parts,) u64, written.
    """
    for part in range(sums.size):
        first, i, stop = U64(starts[part]), U64(cuts[part]), U64(cuts[part + 1])
        sums[part] = digest_part(first, indices, i, stop, bits)


@kernel
def exchange(addresses: Array, sizes: Array, cuts: Array, indices: Array, values: Array, olds: Array) -> None:
    """Replace elements of some arrays, one array after another.

    Args:
        addresses: (n,) i64, of the arrays.
        sizes: (n,) i64, elements of each.
        cuts: (n + 1,) i64, first change of each, and r.
        indices: (r,) u32, positions in their own array.
        values: (r,) unsigned, the new elements.
        olds: (r,) unsigned, written: the elements before.
    """
    for part in range(sizes.size):
        bits, stop = view_at(addresses[part], sizes[part], olds), U64(cuts[part + 1])
        for k in range(U64(cuts[part]), stop):
            prefetch(bits, np.int64(indices[min(k + AHEAD, stop - U64(1))]), 1)
            olds[k] = bits[indices[k]]
            bits[indices[k]] = values[k]
