"""Launching ``container.cu``: a container whose counts, lengths and checksums no host has seen.

Chunks come in their order, each opened, coded and closed before the next. What each is found to have stands
in its ``Chunk``; what the container has so far in its *outcome*, (3,) u64: its bytes, whether something is
wrong, its seed.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from wirecodec.kernels.cuda.device import THREADS, Device, blocks_for

__all__ = [
    "OUTCOME",
    "Chunk",
    "Lengths",
    "begin",
    "chunks",
    "close_chunk",
    "finish",
    "open_chunk",
    "reread_chunk",
    "selection_stream",
    "set_seed",
    "taken",
]

OUTCOME = 3
"""Words of an outcome."""
_CHUNK = 14
"""u32 words of a chunk, as the kernels know it."""
_R, _CODED, _STREAM = 1, 2, 6
_PIECE = 64
"""Bytes of a thread that computes a checksum."""
_MOST = 2048
"""Blocks from where on each does more."""


@dataclass(frozen=True, eq=False)
class Chunk:
    """What a chunk is found to have, in the device's memory.

    Attributes:
        words: all of it.
        r: (1,) u32, its elements.
        coded: (1,) u32, as many where its index section has bytes, else 0.
        stream: (1,) u64, of its draws.
    """

    words: Any
    r: Any
    coded: Any
    stream: Any


@dataclass(frozen=True)
class Lengths:
    """How the bytes of sections follow from counts; what a codec has not is 0.

    Attributes:
        index_fixed, index_each: of an index section, and for each index.
        head: before the values.
        bucket: values that share a scale of four bytes.
        bits: of a packed code.
        plain: bits a value, not packed.
    """

    index_fixed: int
    index_each: int
    head: int = 0
    bucket: int = 0
    bits: int = 0
    plain: int = 0


def chunks(device: Device, count: int) -> list[Chunk]:
    """New ones, side by side."""
    words = device.empty(count * _CHUNK, np.uint32)
    return [_chunk(words[number * _CHUNK :]) for number in range(count)]


def _chunk(words: Any) -> Chunk:
    stream = words[_STREAM : _STREAM + 2].view(np.uint64)
    return Chunk(words, words[_R : _R + 1], words[_CODED : _CODED + 1], stream)


def set_seed(device: Device, seed: int, there: Any) -> None:
    """A u64 to (1,) u64 of the device, as an argument: nothing is copied."""
    device.launch("container", "set_seed", 1, np.uint64(seed), there)


def begin(device: Device, seed: Any, payload: int, outcome: Any) -> None:
    """A container whose sections begin at ``payload``, drawn from (1,) u64 ``seed``."""
    device.launch("container", "begin_container", 1, seed, np.uint64(payload), outcome)


def selection_stream(device: Device, outcome: Any, stream: Any) -> None:
    """What a selector draws from, into (1,) u64 ``stream``; of a container that has begun."""
    device.launch("container", "selection_stream", 1, outcome, stream)


def open_chunk(
    device: Device, indices: Any, found: Any, base: int, d: int, size: int, outcome: Any, chunk: Chunk
) -> None:
    """Find out what of (room,) ascending u32 ``indices`` is a chunk's.

    Args:
        device: where.
        indices: of the tensor; None where all elements are taken.
        found: (2,) u32, how many indices there are, and a position where something is wrong, if any.
        base: the chunk's first element.
        d: its elements.
        size: the tensor's.
        outcome: of the container.
        chunk: what gets the answer.
    """
    room = 0 if indices is None else indices.size
    numbers = (np.uint32(each) for each in (room, base, d, size))
    device.launch("container", "open_chunk", 1, indices, found, *numbers, outcome, chunk.words)


def reread_chunk(
    device: Device, found: Any, room: int, d: int, outcome: Any, chunk: Chunk, *, kept: bool
) -> None:
    """Count anew the elements of an open chunk, whose readers will find others.

    Args:
        device: where.
        found: (1,) u32, how many the filter holds.
        room: more are wrong.
        d: the chunk's elements.
        outcome: of the container.
        chunk: with the number of those that were selected.
        kept: whether the number stays.
    """
    numbers = np.uint32(room), np.uint32(kept), np.uint32(d)
    device.launch("container", "reread_chunk", 1, found, *numbers, outcome, chunk.words)


def taken(device: Device, indices: Any, words: Any, base: int, chunk: Chunk, most: int) -> tuple[Any, Any]:
    """A chunk's indices, counted from its base, and its values; room for ``most`` of them."""
    local, values = device.empty(most, np.uint32), device.empty(most, words.dtype)
    name = f"take_chunk_u{8 * words.dtype.itemsize}"
    blocks = blocks_for(most, THREADS)
    device.launch("container", name, blocks, indices, words, np.uint32(base), chunk.words, local, values)
    return local, values


def close_chunk(
    device: Device,
    sections: tuple[Any, Any],
    words: Any,
    lengths: Lengths,
    flags: tuple[Any, ...],
    outcome: Any,
    chunk: Chunk,
    blob: Any,
) -> None:
    """A chunk's sections to their places, and their checksum.

    Args:
        device: where.
        sections: of indices, None where there is never one, and of values; u8, with room for the longest.
        words: (1,) u32, those that the index section has; None where ``lengths`` says its bytes.
        lengths: of both.
        flags: two at most, (1,) u32 each, that say ``NOWHERE`` where nothing is wrong.
        outcome: of the container.
        chunk: the chunk.
        blob: u8, the container.
    """
    flag, other = (*flags, None, None)[:2]
    index = np.uint32(lengths.index_fixed), np.uint32(lengths.index_each), words
    value = (np.uint32(each) for each in (lengths.head, lengths.bucket, lengths.bits, lengths.plain))
    there = outcome, chunk.words
    device.launch("container", "close_chunk", 1, *index, *value, flag, other, *there)
    longest = sum(each.size for each in sections if each is not None) + 16
    blocks = blocks_for(longest, 8 * THREADS, _MOST)
    device.launch("container", "place_sections", blocks, *sections, chunk.words, blob)
    device.launch("container", "crc_of_chunk", blocks_for(longest, _PIECE * THREADS), blob, chunk.words)


def finish(device: Device, known: Any, found: list[Chunk], outcome: Any, blob: Any) -> None:
    """Prefix, table and extension block; ``known``: u8, with zeros where counts are to be."""
    sizes = np.uint32(known.size), found[0].words, np.uint32(len(found))
    device.launch("container", "finish_container", 1, known, *sizes, outcome, blob)
