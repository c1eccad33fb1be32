"""The counter-based hash behind every random choice (SPEC section 5).

The reader of ``bloom`` and writers of exact codecs need it. A draw depends only on the stream (seed, key and
base of the entry) and the position.
"""

from __future__ import annotations

MASK32 = 2**32 - 1
MASK64 = 2**64 - 1


def finish(z: int) -> int:
    """Apply the finalizer of splitmix64."""
    z ^= z >> 30
    z = z * 0xBF58476D1CE4E5B9 & MASK64
    z ^= z >> 27
    z = z * 0x94D049BB133111EB & MASK64
    return z ^ z >> 31


def mix(*words: int) -> int:
    """Hash any number of u64 to one u64."""
    h = 0
    for word in words:
        h = finish(h + 0x9E3779B97F4A7C15 + word & MASK64)
    return h


def draw32(stream: int, i: int) -> int:
    """Return the i-th u32 of a stream."""
    x = i * 0x9E3779B9 + stream & MASK32
    x ^= x >> 16
    x = x * 0x21F0AAAD & MASK32
    x ^= x >> 15
    x = x + (stream >> 32) & MASK32
    x = x * 0xD35A2D97 & MASK32
    return x ^ x >> 15


def draw16(stream: int, p: int) -> int:
    """Return the u16 for the p-th value of a chunk: half a word, in the order of 16 lanes of 32 rows."""
    block, rest = divmod(p, 512)
    row, lane = divmod(rest, 16)
    word = draw32(stream, 256 * block + 16 * (row // 2) + lane)
    return word & 0xFFFF if row % 2 else word >> 16
