"""Sum of sparse vectors over the union of their supports, block by block."""

from __future__ import annotations

import numpy as np

from wirecodec.arrays import Array
from wirecodec.kernels.compiler.jit import kernel
from wirecodec.kernels.cpu.simd.words import trailing_zeros

BLOCK_SIZE = 2**14
"""Elements whose sums stay in the cache while all vectors are added."""
U64 = np.uint64


@kernel
def find_members(members: Array, indices: Array, found: Array) -> None:
    """Find which of some indices are among others.

    Args:
        members: (n,) integers, ascending.
        indices: (k,) integers, ascending.
        found: (k,) u8; receives 1 for the indices that are members, and 0 for the others.
    """
    at = 0
    for i in range(indices.size):
        wanted = np.int64(indices[i])
        while at < members.size and np.int64(members[at]) < wanted:
            at += 1
        found[i] = at < members.size and np.int64(members[at]) == wanted


@kernel
def sum_union(indices: Array, values: Array, ends: Array, size: int, found: Array, sums: Array) -> int:
    """Add vectors in their order, from +0, and list the elements that at least one of them stores.

    Args:
        indices: (k,) integers, those of all vectors one after another, ascending within each, below ``size``.
        values: (k,) floats.
        ends: (n + 1,) i64, where the vectors begin and end.
        size: elements of a vector.
        found: (u,) of the type of ``indices``; receives the union, ascending. It has room for all of it.
        sums: (u,) of the type of ``values``; receives the sums.

    Returns the size of the union.
    """
    block = np.zeros(BLOCK_SIZE, values.dtype)
    marks = np.zeros(BLOCK_SIZE // 64, np.uint64)
    cursors = ends[:-1].copy()
    count = 0
    for start in range(0, size, BLOCK_SIZE):
        stop = min(start + BLOCK_SIZE, size)
        touched = False
        for vector in range(cursors.size):
            at, end = cursors[vector], ends[vector + 1]
            while at < end and np.int64(indices[at]) < stop:
                i = np.int64(indices[at]) - start
                block[i] += values[at]
                marks[i >> 6] |= U64(1) << U64(i & 63)
                at += 1
            touched |= at > cursors[vector]
            cursors[vector] = at
        if touched:
            for word in range(marks.size):
                mark = marks[word]
                marks[word] = U64(0)
                while mark != U64(0):
                    i = 64 * word + trailing_zeros(mark)
                    mark &= mark - U64(1)
                    found[count] = start + i
                    sums[count] = block[i]
                    block[i] = 0
                    count += 1
    return count
