"""One chunk through its codecs on the device, both ways (``wirecodec.cpu.chunk``).

The codecs with kernels are in ``gpu.index`` and ``gpu.value``. The host checks every byte of a container
before a kernel sees it. If a kernel reports an invalid section, the host decodes it and raises the error.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from wirecodec.arrays import Bytes, bits_of
from wirecodec.container.reader import Row
from wirecodec.container.writer import CHUNK, Entry
from wirecodec.cpu import chunk
from wirecodec.cpu.chunk import element_type
from wirecodec.gpu.arrays import has_nonfinite
from wirecodec.gpu.fallback import HostFallback
from wirecodec.gpu.index import find_index_codec, find_index_decoder
from wirecodec.gpu.index.base import ExactIndexCodec, LossyIndexCodec, rebase
from wirecodec.gpu.select.adacomp import set_scale
from wirecodec.gpu.support import DeviceSupport, support_to_host
from wirecodec.gpu.value import find_value_codec, find_value_decoder
from wirecodec.kernels.cuda import bits, elements
from wirecodec.kernels.cuda.device import Device
from wirecodec.limits import DecodeLimits
from wirecodec.prng import mix
from wirecodec.settings.scheme import Scheme
from wirecodec.support import DecodedChunk, Support


def has_kernels(index: Any, value: Any) -> bool:
    """Return whether both codecs of a scheme have kernels."""
    return find_index_codec(index) is not None and find_value_codec(value) is not None


def encode_chunks(
    device: Device, key: int, support: DeviceSupport | Support, scheme: Scheme, seed: int
) -> list[Entry]:
    """Encode the chunks of a tensor's selected elements.

    Sections are on the device, or on the host if a codec has no kernels. Raises EncodeError.
    """
    if isinstance(support, DeviceSupport):
        if has_kernels(scheme.index, scheme.value):
            try:
                return _encode_by_kernels(device, key, support, scheme, seed)
            except HostFallback:
                pass
        support = support_to_host(device, support)
    return list(chunk.encode_chunks(key, support, scheme, seed))


def _encode_by_kernels(
    device: Device, key: int, support: DeviceSupport, scheme: Scheme, seed: int
) -> list[Entry]:
    """Encode the chunks on the device; raises HostFallback if a value cannot be encoded."""
    size, dtype = support.size, support.dtype
    bases = range(0, max(size, 1), CHUNK)
    ends = [*bases[1:], size]
    if support.indices is not None and len(bases) > 1:
        edges = device.get(bits.find_chunk_ends(device, support.indices, CHUNK, size))
        ends = [*edges.tolist(), support.indices.size]
    elif support.indices is not None:
        ends = [support.indices.size]
    index_codec: Any = scheme.index
    entries = []
    for base, start, stop in zip(bases, [0, *ends], ends, strict=False):
        d, raw = min(CHUNK, size - base), support.raw_bits[start:stop]
        section: Any = np.empty(0, np.uint8)
        stream = mix(seed, key, base)
        if 0 < raw.size < d:
            indices = support.indices[start:stop]
            section, raw = _encode_indices(device, index_codec, support, indices, raw, base, d, stream)
        wire_id, value_section = _encode_values(device, scheme.value, raw, dtype, stream)
        entries.append(
            Entry(key, base, d, raw.size, dtype, 0, index_codec.wire_id, wire_id, section, value_section)
        )
    return entries


def _encode_indices(
    device: Device, codec: Any, support: DeviceSupport, indices: Any, raw: Any, base: int, d: int, stream: int
) -> tuple[Any, Any]:
    """Encode a chunk's indices; return the section, and the raw bits of the values that readers expect.

    Args:
        device: where everything is.
        codec: the scheme's index codec.
        support: of the tensor.
        indices: (r,) u32 of the chunk, counted from the tensor's first element, 0 < r < d.
        raw: (r,) raw bits of the values there.
        base: the chunk's first element.
        d: number of its elements.
        stream: seeds the draws.
    """
    kernels = find_index_codec(codec)
    if isinstance(kernels, ExactIndexCodec):
        return kernels.encode(device, codec, indices, base, d), raw
    assert isinstance(kernels, LossyIndexCodec)
    if not kernels.is_complete(codec) and has_nonfinite(device, raw, support.dtype):
        raise HostFallback  # readers may not find that element
    made = kernels.approximate(device, codec, rebase(device, indices, base), d, stream)
    raw = elements.gather(device, support.flat.raw_bits, rebase(device, made.indices, -base % 2**32))
    if support.scale is not None:
        raw = set_scale(device, raw, support.dtype, support.scale)
    return (made.section if raw.size < d else np.empty(0, np.uint8)), raw


def _encode_values(
    device: Device, codec: Any, raw: Any, dtype: np.dtype[Any], stream: int
) -> tuple[int, Any]:
    """Encode (r,) values; return the wire id and the section, which is empty if r = 0.

    Raises HostFallback if a value cannot be encoded.
    """
    kernels = find_value_codec(codec)
    assert kernels is not None
    wire_id = kernels.wire_id(codec, dtype)
    if raw.size == 0:
        return wire_id, raw.view(np.uint8)
    encoded = kernels.encode(device, codec, raw, dtype, stream)
    if any(int(device.get(flag)[0]) != elements.NOWHERE for flag in encoded.flags):
        raise HostFallback
    return wire_id, encoded.section


def decode_chunk(device: Device, row: Row, sections: Sequence[Bytes], limits: DecodeLimits) -> DecodedChunk:
    """Decode one chunk; its indices and the raw bits of its values are on the device.

    Args:
        device: where the result is.
        row: of the table.
        sections: of the container, on the host.
        limits: bounds on decoding.

    Raises the same WireError as the CPU's ``decode_chunk``.
    """
    part = _decode_by_kernels(device, row, sections, limits)
    return to_device(device, chunk.decode_chunk(row, sections, limits)) if part is None else part


def to_device(device: Device, part: DecodedChunk) -> DecodedChunk:
    """Copy a chunk that the host has decoded to the device; its values become raw bits."""
    indices = None if part.indices is None else device.put(np.ascontiguousarray(part.indices))
    raw = device.put(np.ascontiguousarray(bits_of(part.values)))
    return DecodedChunk(part.base, part.d, indices, raw, part.work)


def _decode_by_kernels(
    device: Device, row: Row, sections: Sequence[Bytes], limits: DecodeLimits
) -> DecodedChunk | None:
    """Decode one chunk on the device; None if a codec has no kernels or a section is invalid."""
    d, r = row.d, row.r
    decode_values = find_value_decoder(row.value_codec)
    if decode_values is None or row.dtype >> 4:
        return None
    indices = None if r == d else device.empty(0, np.uint32)
    work = 0
    if 0 < r < d:
        kernels = find_index_decoder(row.index_codec)
        if kernels is None or kernels.decode is None:
            return None
        work = kernels.count_work(sections[0], d, r)
        if work > limits.max_work:
            return None
        indices = kernels.decode(device, sections[0], d, r)
        if indices is None:
            return None
    dtype = element_type(row)
    raw = device.empty(0, f"u{dtype.itemsize}")
    if r:
        raw = decode_values(device, sections[1], r, dtype)
    return None if raw is None else DecodedChunk(row.base, d, indices, raw, work)
