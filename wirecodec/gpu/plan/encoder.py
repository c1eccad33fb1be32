"""Encoding on a device without waiting for it: a fixed sequence of launches in memory that is its own.

    select -> for each chunk: open, code indices, code values, close -> finish

Every count stays on the device; kernels are launched for the greatest that it can be, and those that have
nothing to do leave at once. The host looks once: at the container's length, and whether something is wrong.
Then the tensor is encoded in the ordinary way, which raises what there is to be raised.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from wirecodec.arrays import DeviceFlat
from wirecodec.container import extension as ext
from wirecodec.container import layout
from wirecodec.container.layout import CHUNK, Entry
from wirecodec.errors import EncodeError
from wirecodec.gpu import bloom
from wirecodec.gpu import chunk as sections
from wirecodec.gpu.encode import encoded
from wirecodec.gpu.plan.selectors import SELECTORS, planned
from wirecodec.gpu.plan.workspace import Kernels, Workspace
from wirecodec.index.bitmap import Bitmap
from wirecodec.index.bloom import Bloom
from wirecodec.index.elias_fano import EliasFano
from wirecodec.index.raw import RawIndex
from wirecodec.index.rice import Rice
from wirecodec.kernels.cuda import bits, elements
from wirecodec.kernels.cuda import container as making
from wirecodec.kernels.cuda.container import Chunk, Lengths
from wirecodec.kernels.cuda.device import Device
from wirecodec.kernels.cuda.select import Selected, infinity_of
from wirecodec.scheme import Scheme
from wirecodec.select.topk import TopK
from wirecodec.value.offset_float import OffsetFloat
from wirecodec.value.qsgd import QSGD
from wirecodec.value.raw import Raw
from wirecodec.value.sign_scale import SignScale

__all__ = ["DevicePlan", "check"]

_INDEX = (RawIndex, Bitmap, Rice, EliasFano, Bloom)
_VALUE = (Raw, QSGD, OffsetFloat, SignScale)
_MOST = 2**31
"""Elements from where on positions are too large for the kernels."""


def check(size: int, scheme: Scheme) -> None:
    """EncodeError where there can be no plan for so many elements, or for the scheme."""
    parts = (scheme.select, SELECTORS), (scheme.index, _INDEX), (scheme.value, _VALUE)
    wrong = [part.name for part, kinds in parts if type(part) not in kinds]
    if scheme.transform is not None:
        wrong = [scheme.transform.name, *wrong]
    if wrong:
        known = "; ".join(", ".join(kind.name for kind in kinds) for _, kinds in parts)
        raise EncodeError(f"a plan has no {', '.join(wrong)}; it has {known}, without a transform")
    index = scheme.index
    if isinstance(index, Bloom):
        one = isinstance(scheme.select, TopK) and size <= CHUNK
        if not (one and bloom.has_kernels(index)):
            raise EncodeError(f"a plan has bloom of policy p0 or p1, after topk, of {CHUNK} elements at most")
    if not 0 < size < _MOST:
        raise EncodeError(f"a plan is for 1 to 2^31 - 1 elements, not {size}")


class DevicePlan:
    """All that encoding tensors of one shape and type takes; what it makes lies in it until the next call.

    Args:
        device: where.
        shape: of the tensors.
        dtype: their element type.
        scheme: one that ``check`` lets pass.
        tag: bytes of the application's own.
        most: elements for which there is memory, where the selector fixes no number.

    Attributes:
        seed: (1,) u64 on the device, 0 at first; what the next run draws from.
    """

    def __init__(
        self,
        device: Device,
        shape: tuple[int, ...],
        dtype: np.dtype[Any],
        scheme: Scheme,
        tag: bytes,
        most: int,
    ) -> None:
        self._shape, self._dtype, self._scheme, self._tag = shape, dtype, scheme, tag
        self._most = most
        self._ordinary, self._device = device, Kernels(device)
        self._size = math.prod(shape)
        self._bases = range(0, self._size, CHUNK)
        self._planned = planned(self._device, scheme.select, self._size, dtype, most)
        self._chunks = making.chunks(device, len(self._bases))
        self._outcome = device.empty(making.OUTCOME, np.uint64)
        self.seed = device.put(np.zeros(1, np.uint64))
        blank = device.empty(self._size, np.dtype(f"u{dtype.itemsize}"))
        device.clear(blank)
        self._memory = Workspace(device)
        self._known = device.put(np.frombuffer(self._head(), np.uint8))
        making.begin(device, self.seed, self._known.size, self._outcome)
        selected = self._planned.select(blank, self._outcome)
        room = self._coded(0, blank, selected).room  # later chunks are no longer than the first
        self._blob = device.empty(self._known.size + len(self._bases) * room, np.uint8)
        self.run(blank)  # all kernels are loaded, and all memory is there
        self._memory.close()
        self._planned.settle()
        device.get(self._outcome)

    def _head(self) -> bytes:
        """Prefix, table and extension block of a container with no elements in its chunks."""
        shapes = {} if len(self._shape) == 1 else {0: self._shape}
        block = ext.write(ext.Extension(shapes=shapes, tag=self._tag))
        value = sections.wire_id(self._scheme.value, self._dtype)
        nothing: Any = np.empty(0, np.uint8)
        index: Any = self._scheme.index
        entries = [
            Entry(0, base, self._d(base), 0, self._dtype, 0, index.wire_id, value, nothing, nothing)
            for base in self._bases
        ]
        return layout.header_bytes(entries, [0] * len(entries), block, 0)

    def _d(self, base: int) -> int:
        return min(CHUNK, self._size - base)

    def run(self, words: Any) -> None:
        """Launch everything for (size,) ``words`` that lie on the device; nothing is waited for."""
        device, payload = self._device, self._known.size
        making.begin(device, self.seed, payload, self._outcome)
        selected = self._planned.select(words, self._outcome)
        for number, chunk in enumerate(self._chunks):
            self._coded(number, words, selected).close(device, self._outcome, chunk, self._blob)
        making.finish(device, self._known, self._chunks, self._outcome, self._blob)

    def reseed(self, seed: int) -> None:
        """Set the seed, in the stream's order."""
        making.set_seed(self._device, seed, self.seed)

    def container_of(self, words: Any) -> Any:
        """What the last run made of the same words, u8 on the device; waits for it. Raises EncodeError."""
        total, bad, seed = self._device.get(self._outcome).tolist()
        if not bad:
            return self._blob[:total]
        flat = DeviceFlat(words, self._dtype, self._shape)
        return encoded(self._ordinary, flat, self._scheme, seed, self._tag)

    def _coded(self, number: int, words: Any, selected: Selected | None) -> _Coded:
        """A chunk's sections, in memory that the next chunk will use, too."""
        memory, scheme, chunk = self._memory, self._scheme, self._chunks[number]
        base = self._bases[number]
        d = self._d(base)
        memory.rewind()
        indices, values, found = None, words[base : base + d], None
        if selected is not None:
            indices, values, found = selected.indices, selected.values, selected.found
        making.open_chunk(memory, indices, found, base, d, self._size, self._outcome, chunk)
        index, taken, count = None, None, None
        if selected is not None:
            count = chunk.r
            if len(self._bases) > 1:
                most = min(self._planned.room, CHUNK)
                indices, values = making.taken(memory, indices, values, base, chunk, most)
            if isinstance(scheme.index, Bloom):
                index, values = self._approximated(scheme.index, words, indices, chunk)
            else:
                index, taken = sections.coded_index(memory, scheme.index, indices, 0, d, chunk.coded)
        coded = sections.coded_values(memory, scheme.value, values, self._dtype, chunk.stream, count)
        flags = coded.flags
        if isinstance(scheme.value, Raw) and self._planned.ordered:
            flags = (*flags, bits.nonfinite(memory, values, infinity_of(self._dtype)))
        return _Coded(index, taken, coded.section, _lengths(scheme, self._dtype, d, index), flags)

    def _approximated(self, codec: Bloom, words: Any, indices: Any, chunk: Chunk) -> tuple[Any, Any]:
        """The section of all the indices of the only chunk, and the values that its readers will find."""
        memory, d = self._memory, self._size
        room = max(indices.size, min(self._most, d))
        section, found, held = bloom.approximated_unseen(memory, codec, indices, d, chunk.stream, room)
        kept = codec.policy != "p0"
        making.reread_chunk(memory, held, room, d, self._outcome, chunk, kept=kept)
        return section, elements.gathered(memory, words, found, chunk.r)


@dataclass(frozen=True, eq=False)
class _Coded:
    """A chunk's sections, with room for the longest, and what tells their lengths and what is wrong.

    ``index`` is None where there is never one; ``taken``, ``lengths``, ``flags``: see ``close_chunk``.
    """

    index: Any
    taken: Any
    value: Any
    lengths: Lengths
    flags: tuple[Any, ...]

    @property
    def room(self) -> int:
        """Bytes that both take at most."""
        return sum(each.size + ext.pad8(each.size) for each in (self.index, self.value) if each is not None)

    def close(self, device: Device, outcome: Any, chunk: Chunk, blob: Any) -> None:
        """To their places."""
        both = self.index, self.value
        making.close_chunk(device, both, self.taken, self.lengths, self.flags, outcome, chunk, blob)


def _lengths(scheme: Scheme, dtype: np.dtype[Any], d: int, section: Any) -> Lengths:
    """How the lengths of a chunk's sections follow from its counts; ``section``: of indices, or None."""
    index, value = scheme.index, scheme.value
    fixed = section.size if section is not None and isinstance(index, Bitmap | Bloom) else 0
    each = (2 if d <= 2**16 else 4) if isinstance(index, RawIndex) else 0
    if isinstance(value, QSGD):
        return Lengths(fixed, each, head=8, bucket=value.bucket, bits=value.bits)
    if isinstance(value, OffsetFloat):
        return Lengths(fixed, each, head=12, bits=value.bits)
    if isinstance(value, SignScale):
        return Lengths(fixed, each, head=max(dtype.itemsize, 4), plain=1)
    narrow = isinstance(value, Raw) and value.dtype is not None
    return Lengths(fixed, each, plain=16 if narrow else 8 * dtype.itemsize)
