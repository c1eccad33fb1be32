"""Kernels of digests (formats/spec/patch.md, "Digests"), and of the changes between two arrays.

A digest is a sum over words of 8 bytes, so that of a changed array follows from the words that changed.
"""

from __future__ import annotations

import numpy as np

from wirecodec.arrays import Array
from wirecodec.kernels.compiler.jit import inline, kernel
from wirecodec.kernels.layout import DIGEST_FACTORS, DIGEST_STRIDE

U64 = np.uint64
STRIDE, (FIRST, SECOND) = U64(DIGEST_STRIDE), map(U64, DIGEST_FACTORS)


@inline
def fold(word: np.uint64, number: np.uint64) -> np.uint64:
    """Mix a word with its number, counted from 1."""
    x = word + number * STRIDE
    x = (x ^ (x >> U64(32))) * FIRST
    x = (x ^ (x >> U64(29))) * SECOND
    return x ^ (x >> U64(32))


@kernel
def digest_words(words: Array, first: int) -> np.uint64:
    """Add the mixed words of (n,) u64, the first of which has the number ``first``."""
    total, at = U64(0), U64(first)
    for j in range(words.size):
        total += fold(words[j], at + U64(j))
    return total


@kernel
def find_changes(old: Array, new: Array, start: int, per: int, found: Array, state: Array) -> int:
    """Find the elements that differ, until the buffer may be full; add up the digests of both arrays.

    Args:
        old, new: (n,) u64, words of ``per`` elements.
        start: first word to compare.
        per: elements per word: 1, 2, 4 or 8.
        found: (m,) u32, written from ``state[0]`` on: positions of elements, ascending.
        state: (3,) u64: number of positions, digest of ``old``, digest of ``new``.

    Returns the first word that was not compared.
    """
    count, total, moved = np.int64(state[0]), state[1], state[2]
    width = U64(64 // per)
    mask = U64(0xFFFFFFFFFFFFFFFF) >> (U64(64) - width)
    j, n, room = start, old.size, found.size - per
    while j < n and count <= room:
        a, b = old[j], new[j]
        mixed = fold(a, U64(j + 1))
        total += mixed
        if a != b:
            moved += fold(b, U64(j + 1)) - mixed
            x = a ^ b
            for i in range(per):
                found[count] = per * j + i
                count += np.int64((x & mask) != U64(0))
                x = (x >> (width - U64(1))) >> U64(1)
        j += 1
    state[0], state[1], state[2] = U64(count), total, moved
    return j


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
    i, r = 0, indices.size
    while i < r:
        j = np.int64(indices[i]) // per
        word = words[j]
        new = word
        while i < r and np.int64(indices[i]) // per == j:
            shift = (U64(indices[i]) - U64(per * j)) * width
            new = (new & ~(mask << shift)) | (U64(values[i]) << shift)
            i += 1
        moved += fold(new, U64(j + 1)) - fold(word, U64(j + 1))
    return moved


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
