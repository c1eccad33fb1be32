"""The k-th largest of some thousand keys: one bit at a time, by counting keys at the speed of the cache.

A pass per bit costs less than the tables of ``radix`` until the keys outgrow the cache. Most searches end
after half of the bits, because no two keys share them.
"""

from __future__ import annotations

import numpy as np

from wirecodec.arrays import Array
from wirecodec.kernels.cpu.jit import inline
from wirecodec.kernels.cpu.simd.masks64 import at_least64
from wirecodec.kernels.cpu.simd.words import popcount

__all__ = ["find_rank", "pad"]

U64 = np.uint64


@inline
def pad(keys: Array, n: int) -> int:
    """Set the keys from n to the next multiple of 64 to 0; return that multiple."""
    stop = (n + 63) & ~63
    for i in range(n, stop):
        keys[i] = 0
    return stop


@inline
def _count(keys: Array, least: np.uint64) -> int:
    """Count the keys of ``least`` or more, 64 at a time."""
    n = 0
    for at in range(0, keys.size, 64):
        n += popcount(at_least64(keys, at, least))
    return n


@inline
def find_rank(keys: Array, rank: int, prefix: np.uint64, width: int) -> tuple[np.uint64, int]:
    """Return a key that the ``rank`` largest reach, and the number of keys that reach it.

    It is the rank-th largest, unless a smaller one is known to separate exactly ``rank`` keys from the rest.

    Args:
        keys: padded by ``pad``; ``rank`` of them or more are ``prefix`` or more.
        rank: 1 or more.
        prefix: bits of all keys above their low ``width`` bits; the low bits are 0.
        width: number of bits to find.
    """
    found, n = prefix, -1
    for bit in range(width - 1, -1, -1):
        larger = found | (U64(1) << U64(bit))
        reached = _count(keys, larger)
        if reached >= rank:
            found, n = larger, reached
            if n == rank:
                return found, n
    return found, n if n >= 0 else _count(keys, found)
