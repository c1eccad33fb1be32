"""Chunks of a container on the device: codecs with kernels decode there, others on the host.

The host sees every byte of a container, which it checks before any kernel does; what crosses are compressed
bytes. A section that a kernel refuses is decoded on the host, which says what is wrong with it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from wirecodec.arrays import BFLOAT16, Bytes, bits_of
from wirecodec.container.header import Row
from wirecodec.cpu import chunk
from wirecodec.cpu.chunk import element_type
from wirecodec.gpu.bloom import indices_of
from wirecodec.gpu.support import concatenated
from wirecodec.index.bitmap import Bitmap, bitmap_bytes
from wirecodec.index.bloom import Bloom
from wirecodec.index.elias_fano import EliasFano
from wirecodec.index.rice import Rice
from wirecodec.kernels.cuda import bits, elements, spans, values
from wirecodec.kernels.cuda.device import Device
from wirecodec.limits import DecodeLimits
from wirecodec.support import DecodedChunk
from wirecodec.value.offset_float import OffsetFloat
from wirecodec.value.qsgd import QSGD
from wirecodec.value.raw import Raw, RawBfloat16, RawFloat16
from wirecodec.value.sign_scale import SignScale

__all__ = ["add", "decode_chunk", "joined", "on_device"]


def decode_chunk(device: Device, row: Row, sections: Sequence[Bytes], limits: DecodeLimits) -> DecodedChunk:
    """One chunk, its indices and the words of its values on the device; a WireError as ``chunk`` has it.

    Args:
        device: where.
        row: of the table.
        sections: of the container, on the host.
        limits: what decoding may cost.
    """
    part = _by_kernels(device, row, sections, limits)
    return on_device(device, chunk.decode_chunk(row, sections, limits)) if part is None else part


def on_device(device: Device, part: DecodedChunk) -> DecodedChunk:
    """A part that was decoded on the host, its values as words."""
    indices = None if part.indices is None else device.put(np.ascontiguousarray(part.indices))
    words = device.put(np.ascontiguousarray(bits_of(part.values)))
    return DecodedChunk(part.base, part.d, indices, words, part.work)


def _by_kernels(
    device: Device, row: Row, sections: Sequence[Bytes], limits: DecodeLimits
) -> DecodedChunk | None:
    """None where a codec has no kernels, or a kernel refuses."""
    d, r = row.d, row.r
    value = _VALUE.get(row.value_codec)
    if value is None or row.dtype >> 4:
        return None
    indices = None if r == d else device.empty(0, np.uint32)
    work = 0
    if 0 < r < d:
        if row.index_codec == Bloom.wire_id and (work := Bloom.work(sections[0], d, r)) > limits.max_work:
            return None
        index = _INDEX.get(row.index_codec)
        indices = None if index is None else index(device, sections[0], d, r)
        if indices is None:
            return None
    dtype = element_type(row)
    words = device.empty(0, f"u{dtype.itemsize}")
    if r:
        words = value(device, sections[1], r, dtype)
    return None if words is None else DecodedChunk(row.base, d, indices, words, work)


def _bitmap(device: Device, section: Bytes, d: int, r: int) -> Any:
    if section.size != bitmap_bytes(d):
        return None
    words = np.zeros(-(-d // 32), np.uint32)
    words.view(np.uint8)[: section.size] = section
    indices, found = bits.positions(device, device.put(words), d, r)
    return indices if device.get(found).tolist() == [r, 0] else None


def _spans(read: Callable[..., tuple[Any, Any]]) -> Callable[[Device, Bytes, int, int], Any]:
    def decode(device: Device, section: Bytes, d: int, r: int) -> Any:
        if section.size % 4:
            return None
        return _unless(device, *read(device, device.put(section).view(np.uint32), d, r))

    return decode


def _unless(device: Device, found: Any, bad: Any) -> Any:
    """What was found, or None where the flag is set."""
    return None if device.get(bad)[0] else found


def _raw(device: Device, section: Bytes, r: int, dtype: np.dtype[Any]) -> Any:
    fits = section.size == r * dtype.itemsize
    return device.put(section).view(f"u{dtype.itemsize}") if fits else None


def _widened(stored: np.dtype[Any]) -> Callable[[Device, Bytes, int, np.dtype[Any]], Any]:
    def decode(device: Device, section: Bytes, r: int, dtype: np.dtype[Any]) -> Any:
        if section.size != 2 * r or dtype.itemsize == 2:
            return None
        single, _ = elements.as_single(device, device.put(section).view(np.uint16), stored)
        return elements.from_single(device, single, dtype)

    return decode


def _qsgd(device: Device, section: Bytes, r: int, dtype: np.dtype[Any]) -> Any:
    n, bucket, _ = QSGD.read_header(section, r, dtype)
    single = _unless(device, *values.qsgd_values(device, device.put(section), r, n, bucket))
    return None if single is None else elements.from_single(device, single, dtype)


def _offset_float(device: Device, section: Bytes, r: int, dtype: np.dtype[Any]) -> Any:
    head = OffsetFloat.read_header(section, r, dtype)
    single = _unless(device, *values.offset_values(device, device.put(section), r, head))
    return None if single is None else elements.from_single(device, single, dtype)


def _sign_scale(device: Device, section: Bytes, r: int, dtype: np.dtype[Any]) -> Any:
    zero, one, signs = SignScale.read_header(section, r, dtype)
    return values.expanded_signs(device, device.put(np.ascontiguousarray(signs)), r, zero, one)


_INDEX: dict[int, Callable[[Device, Bytes, int, int], Any]] = {
    Bitmap.wire_id: _bitmap,
    Rice.wire_id: _spans(spans.rice_indices),
    EliasFano.wire_id: _spans(spans.elias_fano_indices),
    Bloom.wire_id: indices_of,
}
_VALUE: dict[int, Callable[[Device, Bytes, int, np.dtype[Any]], Any]] = {
    Raw.wire_id: _raw,
    RawFloat16.wire_id: _widened(np.dtype(np.float16)),
    RawBfloat16.wire_id: _widened(BFLOAT16),
    QSGD.wire_id: _qsgd,
    OffsetFloat.wire_id: _offset_float,
    SignScale.wire_id: _sign_scale,
}


def add(device: Device, out: Any, part: DecodedChunk, dtype: np.dtype[Any], scale: float) -> None:
    """out[base + indices] += scale * values: rounded to the type of ``out``, as are product and sum.

    ``out`` is flat, float32 or float64; ``dtype`` the element type of the part's words.
    """
    there = out[part.base : part.base + part.d]
    bits.add(device, there, part.indices, elements.converted(device, part.values, dtype, out.dtype), scale)


def joined(device: Device, parts: Sequence[DecodedChunk], size: int) -> tuple[Any, Any]:
    """A tensor's chunks as one: (r,) int32 indices, None where all of ``size`` are present; (r,) words."""
    words = concatenated(device, [part.values for part in parts])
    if words.size == size:
        return None, words
    pieces = []
    for part in parts:
        local = device.put(np.arange(part.d, dtype=np.uint32)) if part.indices is None else part.indices
        pieces.append(bits.counted_from(device, local, -part.base % 2**32, np.uint32) if part.base else local)
    return concatenated(device, pieces).view(np.int32), words
