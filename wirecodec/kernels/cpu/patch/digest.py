"""Kernels of digests (formats/spec/patch.md, "Digests"), and of the changes between two arrays.

A digest is a sum over words of 8 bytes, so that of a changed array follows from the words that changed.
"""

from __future__ import annotations

import numpy as np

from wirecodec.arrays import Array
from wirecodec.kernels.compiler.jit import inline, kernel
from wirecodec.kernels.cpu.simd.set_bits import store_set_bits
from wirecodec.kernels.cpu.simd.vector import load, mask_to_bits
from wirecodec.kernels.cpu.simd.words import popcount
from wirecodec.kernels.layout import DIGEST_FACTORS, DIGEST_STRIDE

U64 = np.uint64
BLOCK = 4096
"""Elements that are compared between two sums of their words, while they are in a near cache."""
STRIDE, (FIRST, SECOND) = U64(DIGEST_STRIDE), map(U64, DIGEST_FACTORS)


@inline
def fold(word: np.uint64, number: np.uint64) -> np.uint64:
    """Mix a word with its number, counted from 1."""
    x = word + number * STRIDE
    x = (x ^ (x >> U64(32))) * FIRST
    x = (x ^ (x >> U64(29))) * SECOND
    return x ^ (x >> U64(32))


@inline
def add_words(words: Array, start: int, stop: int, before: np.uint64) -> np.uint64:
    """Add the mixed words from ``start`` to ``stop`` - 1; word 0 has the number ``before`` + 1."""
    total, first = U64(0), before + U64(1)
    for j in range(U64(start), U64(stop)):
        total += fold(words[j], first + j)
    return total


@kernel
def digest_words(words: Array, first: int) -> np.uint64:
    """Add the mixed words of (n,) u64, the first of which has the number ``first``."""
    return add_words(words, 0, words.size, U64(first) - U64(1))


@kernel
def find_changes(
    old: Array, new: Array, old_words: Array, new_words: Array, start: int, found: Array, state: Array
) -> int:
    """Find the elements that differ, until the buffer may be full; add up the digests of both arrays.

    Args:
        old, new: (size,) unsigned, elements.
        old_words, new_words: (n,) u64, the same memory without a last part of a word; or (0,) for no digests.
        start: first element to compare, a multiple of ``BLOCK``.
        found: (m,) u32, m ≥ ``BLOCK`` + 64, written from ``state[0]`` on: positions of elements, ascending.
        state: (3,) u64: number of positions, digest of ``old``, digest of ``new``.

    Returns the first element that was not compared.
    """
    count, total, moved = np.int64(state[0]), state[1], state[2]
    per = 8 // old.itemsize
    while start < old.size and count + BLOCK + 64 <= found.size:
        before, stop = count, min(start + BLOCK, old.size)
        whole = start + ((stop - start) & ~63)
        for at in range(start, whole, 64):
            differs = mask_to_bits(load(old, at, 64) != load(new, at, 64))
            count += store_set_bits(found, count, differs, np.uint32(at))
        for at in range(whole, stop):
            found[count] = at
            count += np.int64(old[at] != new[at])
        j, k = start // per, min(stop // per, old_words.size)
        one = add_words(old_words, j, k, U64(0))
        total += one
        if count > before:
            moved += add_words(new_words, j, k, U64(0)) - one
        start = stop
    state[0], state[1], state[2] = U64(count), total, moved
    return start


@kernel
def digest_change(words: Array, per: int, indices: Array, values: Array) -> np.uint64:
    """Return by how much the digest of an array changes if elements are replaced.

    Args:
        words: (n,) u64 of ``per`` elements each.
        per: elements per word.
        indices: (r,) u32, ascending, of elements in these words.
        values: (r,) unsigned, the new bits.
    """
    moved = U64(0)
    width = U64(64 // per)
    mask = U64(0xFFFFFFFFFFFFFFFF) >> (U64(64) - width)
    last = U64(per - 1)
    to_word = U64(popcount(last))
    i, r = 0, indices.size
    while i < r:
        j = U64(indices[i]) >> to_word
        word = words[j]
        new = word
        while i < r and U64(indices[i]) >> to_word == j:
            shift = (U64(indices[i]) & last) * width
            new = (new & ~(mask << shift)) | (U64(values[i]) << shift)
            i += 1
        moved += fold(new, j + U64(1)) - fold(word, j + U64(1))
    return moved


@kernel
def take(bits: Array, indices: Array, values: Array) -> None:
    """Read elements of (size,) unsigned at (r,) u32 positions into (r,) values."""
    for i in range(indices.size):
        values[i] = bits[indices[i]]


@kernel
def scatter(bits: Array, indices: Array, values: Array) -> None:
    """Replace elements of (size,) unsigned at (r,) u32 positions by (r,) values."""
    for i in range(indices.size):
        bits[indices[i]] = values[i]


@kernel
def digest_pairs(indices: Array, bits: Array) -> np.uint64:
    """Return the digest of some elements: (r,) u32 positions, and (r,) unsigned bits."""
    total = U64(0)
    for i in range(indices.size):
        total += fold(U64(bits[i]), U64(indices[i]) + U64(1))
    return total
