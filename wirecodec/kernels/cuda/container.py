"""Launch ``container.cu``: write a container whose counts, lengths and checksums stay on the device.

Chunks are processed in order: each is opened, encoded and closed before the next. A ``Chunk`` holds the
numbers of one chunk. The *outcome*, (3,) u64, holds the container's: its length in bytes, whether an error
was found, and the seed.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from wirecodec.kernels.cuda.device import THREADS, Device, blocks_for

__all__ = [
    "OUTCOME",
    "Chunk",
    "IndexLength",
    "ValueLength",
    "allocate_chunks",
    "begin_container",
    "close_chunk",
    "copy_chunk",
    "derive_selection_stream",
    "finish_container",
    "open_chunk",
    "recount_chunk",
    "set_seed",
]

OUTCOME = 3
"""u64 words of an outcome."""
_CHUNK = 14
"""u32 words of the kernels' ``struct Chunk``."""
_R, _INDEX_COUNT, _STREAM = 1, 2, 6
_BYTES_PER_THREAD = 64
"""Bytes per thread that computes a checksum."""
_MAX_BLOCKS = 2048
"""With more work than this many blocks do, each block does more."""


@dataclass(frozen=True, eq=False)
class Chunk:
    """Numbers of a chunk, on the device.

    Attributes:
        words: all of them, the kernels' ``struct Chunk``.
        r: (1,) u32, number of elements.
        index_count: (1,) u32, the same if the index section has bytes, else 0.
        stream: (1,) u64, seeds the draws.
    """

    words: Any
    r: Any
    index_count: Any
    stream: Any


@dataclass(frozen=True)
class IndexLength:
    """How the length of an index section follows from its number of indices.

    Attributes:
        fixed: bytes of every section.
        per_index: bytes per index.
    """

    fixed: int = 0
    per_index: int = 0


@dataclass(frozen=True)
class ValueLength:
    """How the length of a value section follows from its number of values; 0 for what a codec does not have.

    Attributes:
        header: bytes before the values.
        bucket: values that share a scale of four bytes.
        packed_bits: bits per packed code.
        plain_bits: bits per value that is not packed.
    """

    header: int = 0
    bucket: int = 0
    packed_bits: int = 0
    plain_bits: int = 0


def allocate_chunks(device: Device, count: int) -> list[Chunk]:
    """Allocate the numbers of ``count`` chunks, adjacent in memory."""
    words = device.empty(count * _CHUNK, np.uint32)
    return [_chunk(words[number * _CHUNK :]) for number in range(count)]


def _chunk(words: Any) -> Chunk:
    stream = words[_STREAM : _STREAM + 2].view(np.uint64)
    return Chunk(words, words[_R : _R + 1], words[_INDEX_COUNT : _INDEX_COUNT + 1], stream)


def set_seed(device: Device, seed: int, target: Any) -> None:
    """Set (1,) u64 on the device to an integer, which is a kernel argument: nothing is copied."""
    device.launch("container", "set_seed", 1, np.uint64(seed), target)


def begin_container(device: Device, seed: Any, payload: int, outcome: Any) -> None:
    """Begin a container whose sections start at byte ``payload``; (1,) u64 ``seed`` seeds the draws."""
    device.launch("container", "begin_container", 1, seed, np.uint64(payload), outcome)


def derive_selection_stream(device: Device, outcome: Any, stream: Any) -> None:
    """Derive the selector's stream into (1,) u64 ``stream``; the container must have begun."""
    device.launch("container", "selection_stream", 1, outcome, stream)


def open_chunk(
    device: Device, indices: Any, found: Any, base: int, d: int, size: int, outcome: Any, chunk: Chunk
) -> None:
    """Find a chunk's part of the ascending u32 ``indices``.

    Args:
        device: where everything is.
        indices: (capacity,) of the tensor; None if all elements are selected.
        found: (2,) u32, the number of indices, and the position of an error or ``NOWHERE``.
        base: the chunk's first element.
        d: number of its elements.
        size: number of the tensor's elements.
        outcome: of the container.
        chunk: receives the numbers.
    """
    capacity = 0 if indices is None else indices.size
    numbers = (np.uint32(each) for each in (capacity, base, d, size))
    device.launch("container", "open_chunk", 1, indices, found, *numbers, outcome, chunk.words)


def recount_chunk(
    device: Device, found: Any, capacity: int, d: int, outcome: Any, chunk: Chunk, *, kept: bool
) -> None:
    """Replace the number of elements of an open chunk by the number that readers find.

    Args:
        device: where everything is.
        found: (1,) u32, number of elements that the filter holds.
        capacity: a larger number is an error.
        d: number of the chunk's elements.
        outcome: of the container.
        chunk: with the number of selected elements.
        kept: whether the number stays.
    """
    numbers = np.uint32(capacity), np.uint32(kept), np.uint32(d)
    device.launch("container", "recount_chunk", 1, found, *numbers, outcome, chunk.words)


def copy_chunk(
    device: Device, indices: Any, words: Any, base: int, chunk: Chunk, capacity: int
) -> tuple[Any, Any]:
    """Copy a chunk's indices, counted from its base, and its values; at most ``capacity`` of them."""
    local, values = device.empty(capacity, np.uint32), device.empty(capacity, words.dtype)
    name = f"copy_chunk_u{8 * words.dtype.itemsize}"
    blocks = blocks_for(capacity, THREADS)
    device.launch("container", name, blocks, indices, words, np.uint32(base), chunk.words, local, values)
    return local, values


def close_chunk(
    device: Device,
    sections: tuple[Any, Any],
    words: Any,
    lengths: tuple[IndexLength, ValueLength],
    flags: tuple[Any, ...],
    outcome: Any,
    chunk: Chunk,
    blob: Any,
) -> None:
    """Copy a chunk's sections to their place in the container, and compute their checksum.

    Args:
        device: where everything is.
        sections: index section, or None if there is never one, and value section; u8, with capacity for the
            longest.
        words: (1,) u32, length of the index section in words; None if ``lengths`` determines it.
        lengths: of both sections.
        flags: at most two, (1,) u32 each, ``NOWHERE`` if there is no error.
        outcome: of the container.
        chunk: the chunk.
        blob: u8, the container.
    """
    flag, other = (*flags, None, None)[:2]
    of_index, of_value = lengths
    index = np.uint32(of_index.fixed), np.uint32(of_index.per_index), words
    value = of_value.header, of_value.bucket, of_value.packed_bits, of_value.plain_bits
    numbers = (np.uint32(each) for each in value)
    device.launch("container", "close_chunk", 1, *index, *numbers, flag, other, outcome, chunk.words)
    longest = sum(each.size for each in sections if each is not None) + 16
    blocks = blocks_for(longest, 8 * THREADS, _MAX_BLOCKS)
    device.launch("container", "place_sections", blocks, *sections, chunk.words, blob)
    device.launch(
        "container", "crc_of_chunk", blocks_for(longest, _BYTES_PER_THREAD * THREADS), blob, chunk.words
    )


def finish_container(device: Device, known: Any, chunks: list[Chunk], outcome: Any, blob: Any) -> None:
    """Write prefix, table and extension block; ``known`` is u8, with zeros in place of the counts."""
    sizes = np.uint32(known.size), chunks[0].words, np.uint32(len(chunks))
    device.launch("container", "finish_container", 1, known, *sizes, outcome, blob)
