"""Digests of tensors and names (formats/spec/patch.md, "Digests"). They detect accidents, not attacks."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from wirecodec.arrays import Array, addresses_of, read_only
from wirecodec.element_types import number_of
from wirecodec.errors import EncodeError
from wirecodec.kernels.layout import DIGEST_FACTORS, DIGEST_STRIDE
from wirecodec.patch.bits import Bits

MASK = 2**64 - 1
_PIECE = 2**17
"""Words per call of the kernel, so that an interrupt waits for less than a millisecond."""
_TOGETHER = 16
"""Short arrays that share a call of the kernel: all of them are at most a piece."""


def close(word: int, number: int) -> int:
    """Mix a word with a number; return 1 in place of 0."""
    x = (word + number * DIGEST_STRIDE) & MASK
    x = (x ^ x >> 32) * DIGEST_FACTORS[0] & MASK
    x = (x ^ x >> 29) * DIGEST_FACTORS[1] & MASK
    return x ^ x >> 32 or 1


def digest_bytes(data: bytes) -> int:
    """Return the digest of a short byte string."""
    words = np.frombuffer(data + bytes(-len(data) % 8), "<u8")
    return close(sum_words(words), len(data))


def sum_words(words: Array, first: int = 1) -> int:
    """Add up the mixed words of (n,) u64."""
    from wirecodec.kernels.cpu.patch import digest as kernels

    total = 0
    for at in range(0, words.size, _PIECE):
        total += int(kernels.digest_words(words[at : at + _PIECE], first + at))
    return total & MASK


def sum_elements(bits: Array) -> int:
    """Add up the mixed words of the elements (size,) unsigned."""
    data = bits.view(np.uint8)
    whole = data.size & -8
    total = sum_words(data[:whole].view(np.uint64))
    if whole == data.size:
        return total
    padded = data[whole:].tobytes() + bytes(whole + 8 - data.size)
    return (total + sum_words(np.frombuffer(padded, "<u8"), (whole >> 3) + 1)) & MASK


def addresses_of_bits(parts: Sequence[Bits]) -> Array:
    """Return the address of each tensor's elements on the host, (n,) i64. The caller keeps them alive."""
    known = [part.address for part in parts]
    if None in known:
        return addresses_of([part.bits for part in parts])
    return np.array(known, np.int64)


def sum_arrays(parts: Sequence[Bits]) -> Array:
    """Add up the mixed words of the elements of tensors on the host: (n,) u64."""
    from wirecodec.kernels.cpu.patch import digest as kernels

    sums = np.empty(len(parts), np.uint64)
    longest = 8 * _PIECE // _TOGETHER
    short = [i for i, part in enumerate(parts) if part.bits.nbytes <= longest]
    for at in range(0, len(short), _TOGETHER):
        some = short[at : at + _TOGETHER]
        own, found = [parts[i] for i in some], np.empty(len(some), np.uint64)
        sizes = np.array([part.bits.nbytes for part in own], np.int64)
        kernels.digest_arrays(addresses_of_bits(own), sizes, np.empty(0, np.uint8), found)
        sums[some] = found
    for i, part in enumerate(parts):
        if part.bits.nbytes > longest:
            sums[i] = sum_elements(part.bits)
    return sums


def sum_and_join(parts: Sequence[Bits], joined: Array) -> Array:
    """Add up the mixed words of the elements of tensors on the host; copy them one after another.

    Args:
        parts: of one width.
        joined: (all elements,) unsigned, written; the elements of ``parts[0]`` itself if there is but one.

    Returns the sum of each, (n,) u64.
    """
    from wirecodec.kernels.cpu.patch import digest as kernels

    if len(parts) == 1:
        return np.array([sum_elements(parts[0].bits)], np.uint64)
    sums = np.empty(len(parts), np.uint64)
    sizes = np.array([part.bits.nbytes for part in parts], np.int64)
    kernels.digest_arrays(addresses_of_bits(parts), sizes, joined.view(np.uint8), sums)
    return sums


def add_changes(
    sums: Array, joined: Array, starts: Array, cuts: Array, indices: Array, values: Array
) -> None:
    """Add to the sums of arrays by how much they change if elements are replaced.

    Args:
        sums: (n,) u64, as of ``sum_arrays``, changed.
        joined: their elements.
        starts: (n + 1,) i64, first element of each, and the number of all.
        cuts: (n + 1,) i64, first change of each, and r.
        indices: (r,) u32, ascending.
        values: (r,) unsigned, of the type of ``joined``.
    """
    from wirecodec.kernels.cpu.patch import digest as kernels

    data = read_only(joined).view(np.uint8)
    kernels.digest_changes(data, starts, cuts, read_only(indices), read_only(values), sums)


@lru_cache(4096)
def describe(dtype: np.dtype[Any], shape: tuple[int, ...]) -> int:
    """Return the digest of an element type and a shape."""
    head = struct.pack("<HH", number_of(dtype), len(shape))
    return digest_bytes(head + struct.pack(f"<{len(shape)}Q", *shape))


def describe_all(tensors: Sequence[Bits]) -> Array:
    """Return the digest of the type and the shape of each tensor, (n,) u64."""
    return np.array([describe(tensor.dtype, tensor.shape) for tensor in tensors], np.uint64)


def close_all(words: Array, numbers: Array) -> Array:
    """Mix words with numbers, both (n,) u64; return 1 in place of 0."""
    x = words + numbers * np.uint64(DIGEST_STRIDE)
    for shift, factor in zip((32, 29), DIGEST_FACTORS, strict=True):
        x ^= x >> np.uint64(shift)
        x *= np.uint64(factor)
    x ^= x >> np.uint64(32)
    closed: Array = np.maximum(x, np.uint64(1))
    return closed


def seal_all(sums: Array, described: Array, tensors: Sequence[Bits]) -> Array:
    """Return the digests of tensors whose elements have these sums, (n,) u64.

    Args:
        sums: (…, n) u64.
        described: of ``describe_all``.
        tensors: n of them.
    """
    return close_all(sums + described, np.array([tensor.bits.nbytes for tensor in tensors], np.uint64))


def digest_tensors(tensors: Sequence[Bits]) -> list[int]:
    """Return the digest of each tensor; those of one memory are read together."""
    sums = np.empty(len(tensors), np.uint64)
    for forms in {tensor.forms for tensor in tensors}:
        own = [i for i, tensor in enumerate(tensors) if tensor.forms == forms]
        sums[own] = forms.sum_arrays([tensors[i] for i in own])
    found: list[int] = seal_all(sums, describe_all(tensors), tensors).tolist()
    return found


def digest_tensor(tensor: Bits) -> int:
    """Return the digest of a tensor: type, shape and elements."""
    total = tensor.forms.sum_elements(tensor.bits) + describe(tensor.dtype, tensor.shape)
    return close(total, tensor.bits.nbytes)


def take(bits: Array, indices: Array) -> Array:
    """Return the elements of (size,) unsigned at (r,) u32 positions."""
    from wirecodec.kernels.cpu.patch import digest as kernels

    values = np.empty(indices.size, bits.dtype)
    kernels.take(read_only(bits), read_only(indices), values)
    return values


def take_touched(parts: Sequence[Bits], starts: Array, cuts: Array, indices: Array) -> tuple[Array, Array]:
    """Return elements of tensors, as if they followed each other, and the sum of those of each.

    Args:
        parts: tensors on the host, of one width.
        starts, cuts, indices: as of ``add_changes``.

    Returns the elements (r,), and (n,) u64.
    """
    from wirecodec.kernels.cpu.patch import digest as kernels

    values, sums = np.empty(indices.size, parts[0].bits.dtype), np.empty(len(parts), np.uint64)
    sizes = np.diff(starts)
    kernels.take_arrays(addresses_of_bits(parts), sizes, starts, cuts, read_only(indices), values, sums)
    return values, sums


def sum_touched(starts: Array, cuts: Array, indices: Array, values: Array) -> Array:
    """Return the sum of some elements of each of some arrays, as of ``take_touched``: (n,) u64."""
    from wirecodec.kernels.cpu.patch import digest as kernels

    sums = np.empty(starts.size - 1, np.uint64)
    kernels.digest_pairs(starts, cuts, read_only(indices), read_only(values), sums)
    return sums


def seal_touched(sums: Array, described: Array, counts: Array) -> Array:
    """Return the digests of numbers of elements of tensors, which have these sums, (n,) u64.

    Args:
        sums: (…, n) u64.
        described: of ``describe_all``.
        counts: (n,) i64, elements of each.
    """
    return close_all(sums + described, counts.astype(np.uint64))


def digest_named(name: str, digest: int) -> int:
    """Return the digest of a tensor with its name. Raises EncodeError for a name that is no text."""
    try:
        return close(digest, digest_bytes(name.encode()))
    except (AttributeError, UnicodeEncodeError):
        raise EncodeError(f"name is {name!r}; it must be a string of UTF-8") from None
