"""Digests of tensors and names (formats/spec/patch.md, "Digests"). They detect accidents, not attacks."""

from __future__ import annotations

import struct
from functools import lru_cache
from typing import Any

import numpy as np

from wirecodec.arrays import Array, Bytes
from wirecodec.element_types import number_of
from wirecodec.kernels.layout import DIGEST_FACTORS, DIGEST_STRIDE
from wirecodec.patch.bits import Bits

MASK = 2**64 - 1
_PIECE = 2**17
"""Words per call of the kernel, so that an interrupt waits for less than a millisecond."""


def fold(word: int, number: int) -> int:
    """Mix a word with a number; return 1 in place of 0."""
    x = (word + number * DIGEST_STRIDE) & MASK
    x = (x ^ x >> 32) * DIGEST_FACTORS[0] & MASK
    x = (x ^ x >> 29) * DIGEST_FACTORS[1] & MASK
    return x ^ x >> 32 or 1


def digest_bytes(data: bytes) -> int:
    """Return the digest of a short byte string."""
    words = np.frombuffer(data + bytes(-len(data) % 8), "<u8")
    return fold(sum_words(words), len(data))


def sum_words(words: Array, first: int = 1) -> int:
    """Add up the mixed words of (n,) u64."""
    from wirecodec.kernels.cpu.patch import digest as kernels

    total = 0
    for at in range(0, words.size, _PIECE):
        total += int(kernels.digest_words(words[at : at + _PIECE], first + at))
    return total & MASK


def split_words(data: Bytes) -> tuple[Array, Array]:
    """Divide bytes, which begin at a multiple of 8, into whole words and a last one that is padded."""
    whole = data[: data.size & -8].view(np.uint64)
    rest = data[whole.nbytes :].tobytes()
    return whole, np.frombuffer(rest + bytes(8 - len(rest)), np.uint64) if rest else whole[:0]


def sum_elements(bits: Array) -> int:
    """Add up the mixed words of the elements (size,) unsigned."""
    whole, last = split_words(bits.view(np.uint8))
    return add_last(sum_words(whole), whole, last)


def add_last(total: int, whole: Array, last: Array) -> int:
    """Add the mixed last word, (1,) or (0,), to the sum of the words before it."""
    return (total + sum_words(last, whole.size + 1)) & MASK if last.size else total


def sum_change(bits: Array, indices: Array, values: Array) -> int:
    """Return by how much ``sum_elements`` changes if elements are replaced.

    Args:
        bits: (size,) unsigned.
        indices: (r,) u32, ascending.
        values: (r,) unsigned, of the type of ``bits``.
    """
    from wirecodec.kernels.cpu.patch import digest as kernels

    per = 8 // bits.itemsize
    whole, last = split_words(bits.view(np.uint8))
    cut = int(np.searchsorted(indices, np.uint32(whole.size * per)))
    moved = int(kernels.digest_change(whole, per, indices[:cut], values[:cut]))
    if cut < indices.size:
        before, places = last[0], indices[cut:] - np.uint32(whole.size * per)
        changed = last.copy().view(bits.dtype)
        changed[places] = values[cut:]
        number = whole.size + 1
        moved += sum_words(changed.view(np.uint64), number) - sum_words(last[:1], number)
        assert before == last[0]
    return moved & MASK


@lru_cache(4096)
def describe(dtype: np.dtype[Any], shape: tuple[int, ...]) -> int:
    """Return the digest of an element type and a shape."""
    head = struct.pack("<HH", number_of(dtype), len(shape))
    return digest_bytes(head + struct.pack(f"<{len(shape)}Q", *shape))


def seal(total: int, tensor: Bits) -> int:
    """Return the digest of a tensor whose elements have this sum."""
    return fold(total + describe(tensor.dtype, tensor.shape), tensor.bits.nbytes)


def digest_tensor(tensor: Bits) -> int:
    """Return the digest of a tensor: type, shape and elements."""
    return seal(tensor.forms.sum_elements(tensor.bits), tensor)


def take(bits: Array, indices: Array) -> Array:
    """Return the elements of (size,) unsigned at (r,) u32 positions."""
    from wirecodec.kernels.cpu.patch import digest as kernels

    values = np.empty(indices.size, bits.dtype)
    kernels.take(bits, indices, values)
    return values


def digest_touched(tensor: Bits, indices: Array, values: Array) -> int:
    """Return the digest of a tensor's type and shape, and of some elements, (r,) each."""
    from wirecodec.kernels.cpu.patch import digest as kernels

    total = 0
    for at in range(0, indices.size, _PIECE):
        total += int(kernels.digest_pairs(indices[at : at + _PIECE], values[at : at + _PIECE]))
    return fold(total + describe(tensor.dtype, tensor.shape), int(indices.size))


def digest_named(name: str, digest: int) -> int:
    """Return the digest of a tensor with its name."""
    return fold(digest, digest_bytes(name.encode()))
