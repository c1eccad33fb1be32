"""Encoding on a device without waiting: a fixed sequence of launches in pre-allocated memory.

    select -> for each chunk: open, encode indices, encode values, close -> finish

All counts stay on the device. Kernels are launched for the largest possible count; threads without work
return at once. The host reads only the container's length and whether an error was found. If there was one,
the tensor is encoded by ``gpu.encode``, which raises it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from wirecodec.arrays import DeviceFlat
from wirecodec.container import extension_writer as ext
from wirecodec.container import writer
from wirecodec.container.writer import CHUNK, Entry
from wirecodec.errors import EncodeError
from wirecodec.gpu.encode import encode
from wirecodec.gpu.index import GPU_INDEX_CODECS, find_index_codec
from wirecodec.gpu.index.base import ExactIndexCodec, LossyIndexCodec
from wirecodec.gpu.plan.selectors import SELECTORS, make_selector
from wirecodec.gpu.plan.workspace import Kernels, Workspace
from wirecodec.gpu.select.dispatch import SIZE_LIMIT
from wirecodec.gpu.value import GPU_VALUE_CODECS, find_value_codec
from wirecodec.gpu.value.base import find_nonfinite
from wirecodec.kernels.cuda import container, elements
from wirecodec.kernels.cuda.container import Chunk, IndexLength, ValueLength
from wirecodec.kernels.cuda.device import Device
from wirecodec.kernels.cuda.select import Selected
from wirecodec.select.topk import TopK
from wirecodec.settings.scheme import Scheme

__all__ = ["DevicePlan", "check"]

_CODECS = (
    SELECTORS,
    tuple(each.codec for each in GPU_INDEX_CODECS),
    tuple(each.codec for each in GPU_VALUE_CODECS),
)
"""Selectors, index codecs and value codecs that a plan supports."""


def check(size: int, scheme: Scheme) -> None:
    """Raise EncodeError if a plan does not support the number of elements or the scheme."""
    stages = zip((scheme.select, scheme.index, scheme.value), _CODECS, strict=True)
    wrong = [stage.name for stage, kinds in stages if type(stage) not in kinds]
    if scheme.transform is not None:
        wrong = [scheme.transform.name, *wrong]
    if wrong:
        known = "; ".join(", ".join(kind.name for kind in kinds) for kinds in _CODECS)
        raise EncodeError(f"a plan has no {', '.join(wrong)}; it has {known}, without a transform")
    index: Any = scheme.index
    kernels = find_index_codec(index)
    if not isinstance(kernels, ExactIndexCodec):
        one_chunk = isinstance(scheme.select, TopK) and size <= CHUNK
        if kernels is None or not one_chunk:
            needed = next(each.requirement for each in GPU_INDEX_CODECS if each.codec is type(index))
            raise EncodeError(
                f"a plan has {index.name} only with {needed}, after topk, for at most {CHUNK} elements"
            )
    if not 0 < size < SIZE_LIMIT:
        raise EncodeError(f"a plan is for 1 to 2^31 - 1 elements, not {size}")


class DevicePlan:
    """Pre-allocated encoder of tensors of one shape and element type. Each run overwrites the last container.

    Args:
        device: where the tensors are.
        shape: of the tensors.
        dtype: their element type.
        scheme: one that ``check`` accepts.
        tag: bytes of the application.
        capacity: number of elements for which there is memory, if the selector does not fix their number.

    Attributes:
        seed: (1,) u64 on the device, 0 at first; seeds the next run's draws.
    """

    def __init__(
        self,
        device: Device,
        shape: tuple[int, ...],
        dtype: np.dtype[Any],
        scheme: Scheme,
        tag: bytes,
        capacity: int,
    ) -> None:
        self._shape, self._dtype, self._scheme, self._tag = shape, dtype, scheme, tag
        self._capacity = capacity
        self._index_kernels: Any = find_index_codec(scheme.index)
        self._value_kernels: Any = find_value_codec(scheme.value)
        self._plain_device, self._device = device, Kernels(device)
        self._size = math.prod(shape)
        self._bases = range(0, self._size, CHUNK)
        self._selector = make_selector(self._device, scheme.select, self._size, dtype, capacity)
        self._chunks = container.allocate_chunks(device, len(self._bases))
        self._outcome = device.empty(container.OUTCOME, np.uint64)
        self.seed = device.put(np.zeros(1, np.uint64))
        blank = device.empty(self._size, np.dtype(f"u{dtype.itemsize}"))
        device.clear(blank)
        self._memory = Workspace(device)
        self._head = device.put(np.frombuffer(self._make_head(), np.uint8))
        container.begin_container(device, self.seed, self._head.size, self._outcome)
        selected = self._selector.select(blank, self._outcome)
        max_bytes = self._encode_chunk(
            0, blank, selected
        ).max_bytes  # later chunks are no longer than the first
        self._blob = device.empty(self._head.size + len(self._bases) * max_bytes, np.uint8)
        self.run(blank)  # loads all kernels and allocates all memory
        self._memory.close()
        self._selector.freeze()
        device.get(self._outcome)

    def _make_head(self) -> bytes:
        """Return prefix, table and extension block of a container with no elements in its chunks."""
        shapes = {} if len(self._shape) == 1 else {0: self._shape}
        block = ext.write(ext.Extension(shapes=shapes, tag=self._tag))
        value = self._value_kernels.wire_id(self._scheme.value, self._dtype)
        nothing: Any = np.empty(0, np.uint8)
        index: Any = self._scheme.index
        entries = [
            Entry(0, base, self._chunk_size(base), 0, self._dtype, 0, index.wire_id, value, nothing, nothing)
            for base in self._bases
        ]
        return writer.header_bytes(entries, [0] * len(entries), block, 0)

    def _chunk_size(self, base: int) -> int:
        return min(CHUNK, self._size - base)

    def run(self, raw: Any) -> None:
        """Launch the whole sequence for (size,) raw bits on the device, without waiting."""
        device = self._device
        container.begin_container(device, self.seed, self._head.size, self._outcome)
        selected = self._selector.select(raw, self._outcome)
        for number, chunk in enumerate(self._chunks):
            self._encode_chunk(number, raw, selected).close(device, self._outcome, chunk, self._blob)
        container.finish_container(device, self._head, self._chunks, self._outcome, self._blob)

    def reseed(self, seed: int) -> None:
        """Set the seed, in the stream's order."""
        container.set_seed(self._device, seed, self.seed)

    def container_of(self, raw: Any) -> Any:
        """Wait for the last run of the same raw bits and return its container, u8. Raises EncodeError."""
        total, bad, seed = self._device.get(self._outcome).tolist()
        if not bad:
            return self._blob[:total]
        flat = DeviceFlat(raw, self._dtype, self._shape)
        return encode(self._plain_device, flat, self._scheme, seed, self._tag)

    def _encode_chunk(self, number: int, raw: Any, selected: Selected | None) -> _ChunkSections:
        """Encode a chunk's sections, in memory that the next chunk reuses."""
        memory, scheme, chunk = self._memory, self._scheme, self._chunks[number]
        base = self._bases[number]
        d = self._chunk_size(base)
        memory.rewind()
        indices: Any = None
        values, found = raw[base : base + d], None
        if selected is not None:
            indices, values, found = selected.indices, selected.values, selected.found
        container.open_chunk(memory, indices, found, base, d, self._size, self._outcome, chunk)
        index, word_count, count, index_length = None, None, None, IndexLength()
        if selected is not None:
            count = chunk.r
            if len(self._bases) > 1:
                capacity = min(self._selector.capacity, CHUNK)
                indices, values = container.copy_chunk(memory, indices, values, base, chunk, capacity)
            kernels = self._index_kernels
            index_length = kernels.section_length(scheme.index, d, indices.size)
            if isinstance(kernels, LossyIndexCodec):
                index, values = self._approximate(kernels, raw, indices, chunk)
            else:
                encoded = kernels.encode(memory, scheme.index, indices, 0, d, chunk.index_count)
                index, word_count = encoded.section, encoded.word_count
        codec: Any = scheme.value
        section = self._value_kernels.encode(memory, codec, values, self._dtype, chunk.stream, count)
        flags = section.flags
        if codec.carries_nonfinite and self._selector.rejects_nonfinite:
            flags = (*flags, find_nonfinite(memory, values, self._dtype, None))
        lengths = index_length, self._value_kernels.section_length(codec, self._dtype)
        return _ChunkSections(index, word_count, section.section, lengths, flags)

    def _approximate(self, kernels: LossyIndexCodec, raw: Any, indices: Any, chunk: Chunk) -> tuple[Any, Any]:
        """Encode all indices of the only chunk.

        Return the section, and the values that its readers expect.
        """
        memory, d = self._memory, self._size
        codec = self._scheme.index
        capacity = max(indices.size, min(self._capacity, d))
        made = kernels.approximate_async(memory, codec, indices, d, chunk.stream, capacity)
        container.recount_chunk(
            memory, made.positives, capacity, d, self._outcome, chunk, kept=not kernels.is_complete(codec)
        )
        return made.section, elements.gather(memory, raw, made.indices, chunk.r)


@dataclass(frozen=True, eq=False)
class _ChunkSections:
    """Sections of a chunk, with capacity for the longest; the other fields are those of ``close_chunk``.

    Attributes:
        index: u8, or None if there is never an index section.
        word_count: (1,) u32, length of the index section in words, or None.
        value: u8.
        lengths: of both.
        flags: at most two, (1,) u32 each.
    """

    index: Any
    word_count: Any
    value: Any
    lengths: tuple[IndexLength, ValueLength]
    flags: tuple[Any, ...]

    @property
    def max_bytes(self) -> int:
        """Maximum bytes of both sections in the container."""
        return sum(each.size + ext.pad8(each.size) for each in (self.index, self.value) if each is not None)

    def close(self, device: Device, outcome: Any, chunk: Chunk, blob: Any) -> None:
        """Copy both to their places in the container."""
        sections = self.index, self.value
        container.close_chunk(
            device, sections, self.word_count, self.lengths, self.flags, outcome, chunk, blob
        )
