"""Entropy coder of patches (formats/spec/patch.md, "Coder"): rANS, a state of 64 bits, words of 32 bits.

Symbols are written in reverse order, from the end of a buffer, so that a reader goes forwards.
"""

from __future__ import annotations

import numpy as np

from wirecodec.arrays import Array
from wirecodec.kernels.compiler.jit import inline_without_refcounts

U64 = np.uint64
LEAST = U64(1) << U64(31)
"""Smallest state between two symbols, and the first one of a writer."""


@inline_without_refcounts
def push(
    x: np.uint64, start: np.uint64, freq: np.uint64, bits: np.uint64, words: Array, at: int
) -> tuple[np.uint64, int]:
    """Encode a symbol of frequency ``freq`` out of 2^bits; return the state, and the first word written."""
    if (x >> (U64(63) - bits)) >= freq:
        at -= 1
        words[at] = np.uint32(x & U64(0xFFFFFFFF))
        x >>= U64(32)
    q = x // freq
    return (q << bits) + (x - q * freq) + start, at


@inline_without_refcounts
def pull(
    x: np.uint64, start: np.uint64, freq: np.uint64, bits: np.uint64, words: Array, at: int
) -> tuple[np.uint64, int]:
    """Leave a symbol that was found at the state's low bits; return the state, and the next word.

    The state is 0 if the words have ended.
    """
    low = x & ((U64(1) << bits) - U64(1))
    x = freq * (x >> bits) + low - start
    is_low, ends = x < LEAST, at >= words.size
    # No branch: whether a word is needed is as good as random.
    longer = (x << U64(32)) | U64(words[0 if ends else at])
    longer = U64(0) if ends else longer
    return (longer if is_low else x), at + np.int64(is_low)


@inline_without_refcounts
def write_states(states: Array, words: Array, at: int) -> int:
    """Write the last states, (lanes,) u64, before the words; return the first word written."""
    for lane in range(states.size - 1, -1, -1):
        at -= 2
        words[at], words[at + 1] = (
            np.uint32(states[lane] & U64(0xFFFFFFFF)),
            np.uint32(states[lane] >> U64(32)),
        )
    return at


@inline_without_refcounts
def read_states(words: Array, states: Array) -> int:
    """Read the first states, (lanes,) u64; return the next word, or -1 if one is missing or out of range."""
    if words.size < 2 * states.size:
        return -1
    for lane in range(states.size):
        x = U64(words[2 * lane]) | (U64(words[2 * lane + 1]) << U64(32))
        if x < LEAST or x >> U64(63) != U64(0):
            return -1
        states[lane] = x
    return 2 * states.size


@inline_without_refcounts
def has_ended(words: Array, at: int, states: Array) -> bool:
    """Return whether all words were read, and all states are those of a writer's beginning."""
    sound = at == words.size
    for lane in range(states.size):
        sound &= states[lane] == LEAST
    return sound
