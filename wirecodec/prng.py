"""Counter-based random numbers, and the mixing of seeds (formats/SPEC.md, section 5).

A draw depends only on a u64 *stream* and a position. So any element can be computed alone, in any order, on
any machine. These are the definitions on Python integers; ``kernels/cpu/prng.py`` compiles them.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

_U32 = 2**32 - 1
_U64 = 2**64 - 1


def mix(*words: int) -> int:
    """Mix integers, each modulo 2^64, into one u64; their order matters."""
    h = 0
    for word in words:
        z = (h + 0x9E3779B97F4A7C15 + word) & _U64
        z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9 & _U64
        z = (z ^ z >> 27) * 0x94D049BB133111EB & _U64
        h = z ^ z >> 31
    return h


def mix_each(first: int, words: npt.NDArray[np.uint64], last: int) -> npt.NDArray[np.uint64]:
    """Compute ``mix(first, word, last)`` for each of (n,) words."""
    step = np.uint64(0x9E3779B97F4A7C15)
    mixed = _finish_each(words + np.uint64((mix(first) + 0x9E3779B97F4A7C15) & _U64))
    return _finish_each(mixed + step + np.uint64(last))


def _finish_each(z: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
    """Compute a step of ``mix`` for each of (n,) sums; the products wrap."""
    z = z ^ z >> np.uint64(30)
    z = z * np.uint64(0xBF58476D1CE4E5B9)
    z ^= z >> np.uint64(27)
    z = z * np.uint64(0x94D049BB133111EB)
    mixed: npt.NDArray[np.uint64] = z ^ z >> np.uint64(31)
    return mixed


def draw32(stream: int, i: int) -> int:
    """Draw the i-th u32 of a u64 stream, i < 2^32."""
    x = (i * 0x9E3779B9 + stream) & _U32
    x ^= x >> 16
    x = x * 0x21F0AAAD & _U32
    x ^= x >> 15
    x = (x + (stream >> 32)) & _U32
    x = x * 0xD35A2D97 & _U32
    return x ^ (x >> 15)
