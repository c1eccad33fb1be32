"""Memory and tables of a batch of tensors: what is the same in each step.

All buffers are parts of one array. Those that only one step's kernels use are written again by the next step,
which the stream orders.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from wirecodec.arrays import Array
from wirecodec.container.writer import CHUNK
from wirecodec.kernels.cuda import batch as tables
from wirecodec.kernels.cuda.device import THREADS, Device
from wirecodec.kernels.cuda.packing import packed_words
from wirecodec.kernels.cuda.select import DENSE_TILE, FLAG_TILE, TILE
from wirecodec.kernels.cuda.stages import upload_all
from wirecodec.kernels.cuda.topk import COUNTS, FIELDS, guessed_rank
from wirecodec.kernels.layout import PACK_BLOCK, RICE_BLOCK, RICE_SPAN
from wirecodec.value.qsgd import QSGD
from wirecodec.value.raw import Raw, RawBfloat16, RawFloat16

_ALIGNMENT = 16
_COUNTED, _MAX_COUNTING_BLOCKS = 16384, 256
"""Keys that a block counts, and the number of blocks per tensor above which each counts more."""
_COPIED = 4
"""Words that a thread copies."""


class Plan:
    """Buffers and tables of tensors whose top k is encoded by ``rice`` and by ``qsgd`` or ``raw``.

    Args:
        device: of the buffers.
        sizes: elements of each tensor, more than k.
        counts: k of each tensor, above 0.
        dtype: of the gradients.
        bits: of QSGD's codes; 0 for raw values.
        narrow: type of 16 bits in which raw values of float32 are stored, or None.

    Attributes:
        tensors: (t,) ``TENSOR``, complete but for the arrays of a step.
        entries: (e,) ``ENTRY``, likewise.
        owners: (e,) the tensor of each entry.
        stages: by name.
        report: (9 t + 2 e,) u32: status of the tensors, then r and index words of the entries.
        is_warm: whether there was a step.
    """

    def __init__(
        self,
        device: Device,
        sizes: Sequence[int],
        counts: Sequence[int],
        dtype: np.dtype[Any],
        bits: int,
        narrow: np.dtype[Any] | None = None,
    ) -> None:
        self.size, self.k = np.array(sizes, np.int64), np.array(counts, np.int64)
        self.dtype, self.bits, self.narrow = dtype, bits, narrow
        self.is_warm = False
        capacity = np.minimum(self.size, 2 * self.k + self.size // 16 + 4096)
        self._describe_entries()
        width = dtype.itemsize
        count, entries = self.size.size, self.owners.size
        arena = _Arena()
        status = arena.take(np.array([4 * (tables.STATUS * count + 2 * entries)]))
        search, digits = arena.take(np.full(count, 8 * FIELDS)), arena.take(np.full(count, 4 * COUNTS))
        reach, states = arena.take(4 * _blocks(self.size, 32)), arena.take(8 * _blocks(self.size, FLAG_TILE))
        indices, values = arena.take(4 * capacity), arena.take(width * capacity)
        blocks, spans = _blocks(self.most, RICE_BLOCK), _blocks(self.most, RICE_SPAN)
        parts = {
            "parameters": arena.take(blocks),
            "quotients": arena.take(4 * blocks),
            "spans": arena.take(4 * (spans + 1)),
            "words": arena.take(4 * self._longest),
        }
        section_words = self.value_words(self.most)
        section = arena.take(4 * section_words)
        self._arena = device.empty(arena.size, np.uint8)
        start = device.address(self._arena)
        report = status[0]
        self.report = self._arena[int(report) : int(report) + 4 * (tables.STATUS * count + 2 * entries)].view(
            np.uint32
        )
        device.clear(self._arena[int(search[0]) : int(digits[-1]) + 4 * COUNTS])

        self.tensors = np.zeros(count, tables.TENSOR)
        table: Any = self.tensors
        table["size"], table["k"], table["capacity"] = self.size, self.k, capacity
        table["search"], table["counts"] = start + search, start + digits
        table["reach"], table["tiles"] = start + reach, start + states
        table["rank"] = [guessed_rank(k, size) for k, size in zip(counts, sizes, strict=True)]
        table["indices"], table["values"] = start + indices, start + values
        table["status"] = start + report + 4 * tables.STATUS * np.arange(count, dtype=np.uint64)

        self.entries = np.zeros(entries, tables.ENTRY)
        table = self.entries
        for name, places in parts.items():
            table[name] = start + places
        if self.has_section:
            table["section"] = start + section
        table["report"] = start + report + 4 * tables.STATUS * count + 8 * np.arange(entries, dtype=np.uint64)
        table["status"] = self.tensors["status"][self.owners]
        table["base"], table["d"] = self.base, self.d
        table["k"], table["size"] = self.k[self.owners], self.size[self.owners]

        directory = _blocks(48 * (spans - 1) + 5 * blocks, 32)
        sent = np.maximum(section_words, _blocks(width * self.most, 4))
        copied = np.clip(_blocks(self._longest + sent, _COPIED * THREADS), 1, _MAX_COUNTING_BLOCKS)
        counting = np.minimum(_blocks(self.size, _COUNTED), _MAX_COUNTING_BLOCKS)
        needed = {
            "flags": _blocks(self.size, FLAG_TILE),
            "tiles": _blocks(self.size, TILE),
            "count_all": counting,
            "count": np.minimum(_blocks(capacity, _COUNTED), _MAX_COUNTING_BLOCKS),
            "kept_flags": _blocks(capacity, FLAG_TILE),
            "kept_tiles": _blocks(capacity, DENSE_TILE),
            "plan": _blocks(blocks, THREADS // 32),
            "directory": _blocks(directory, THREADS),
            "spans": spans,
            "codes": _blocks(self.most, PACK_BLOCK),
            "copy": copied,
        }
        self.stages = upload_all(device, needed)

    def _describe_entries(self) -> None:
        """List the chunks of all tensors."""
        chunks = _blocks(self.size, CHUNK)
        self.owners = np.repeat(np.arange(self.size.size), chunks)
        number = np.arange(self.owners.size) - np.repeat(np.cumsum(chunks) - chunks, chunks)
        self.base = number * CHUNK
        self.d = np.minimum(self.size[self.owners] - self.base, CHUNK)
        self.most = np.minimum(self.k[self.owners], self.d)
        blocks, spans = _blocks(self.most, RICE_BLOCK), _blocks(self.most, RICE_SPAN)
        # With the best parameter an index takes at most log2(d/r) + 3 bits, for any r up to the most. Each
        # block and each span is rounded up to a word.
        each = np.array([int(ratio).bit_length() + 5 for ratio in self.d // self.most])
        directory = _blocks(48 * (spans - 1) + 5 * blocks, 32)
        self._longest = directory + _blocks(self.most * each, 32) + blocks + spans

    @property
    def has_section(self) -> bool:
        """Return whether values are stored in another form than they have."""
        return self.bits > 0 or self.narrow is not None

    @property
    def value_id(self) -> int:
        """Wire id of the values' codec."""
        if self.narrow is not None:
            return (RawFloat16 if self.narrow == np.float16 else RawBfloat16).wire_id
        return QSGD.wire_id if self.bits else Raw.wire_id

    def value_words(self, r: Array) -> Array:
        """Return the u32 words of the stored form of r values; 0 if it is that of the values."""
        words: Array = np.zeros_like(r)
        if self.bits:
            words = np.where(r > 0, 2 + _blocks(r, PACK_BLOCK) + packed_words(r, self.bits), 0)
        elif self.narrow is not None:
            words = _blocks(r, 2)
        return words

    def value_bytes(self, r: Array) -> Array:
        """Return the bytes of the value section of r values."""
        if self.bits:
            return 4 * self.value_words(r)
        return (self.narrow or self.dtype).itemsize * r


class _Arena:
    """Offsets of buffers in one array."""

    def __init__(self) -> None:
        self.size = 0

    def take(self, nbytes: Array) -> Array:
        """Return the offsets of buffers of these lengths."""
        padded = _blocks(nbytes, _ALIGNMENT) * _ALIGNMENT
        ends: Array = self.size + np.cumsum(padded)
        self.size = int(ends[-1])
        starts: Array = (ends - padded).astype(np.uint64)
        return starts


def _blocks(work: Array, each: int) -> Array:
    """Return how many blocks of ``each`` items hold the work."""
    result: Array = -(-work // each)
    return result
