"""A tensor on a device as a container on it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from wirecodec import container
from wirecodec import extension as ext
from wirecodec.arrays import Array, DeviceFlat, Flat, read_only
from wirecodec.choice import choose, scaled
from wirecodec.chunk import Support, chunks_of
from wirecodec.container import CHUNK, Entry
from wirecodec.counter import mix
from wirecodec.errors import EncodeError
from wirecodec.gpu import sections
from wirecodec.gpu.select import has_kernels, select
from wirecodec.gpu.support import DeviceSupport, Refused
from wirecodec.index.base import is_lossy
from wirecodec.index.bloom import Bloom
from wirecodec.kernels.cuda import bits, checksum, elements
from wirecodec.kernels.cuda.device import Device
from wirecodec.scheme import Scheme
from wirecodec.sparse import index_dtype

__all__ = ["encoded", "encoded_many", "entries_of", "packed"]


def encoded(device: Device, flat: DeviceFlat, scheme: Scheme, seed: int, tag: bytes) -> Any:
    """One tensor as a container, u8 on the device. Raises EncodeError."""
    ext.check_shape(flat.shape)
    entries, domain = entries_of(device, 0, flat, scheme, seed)
    extension = ext.Extension(
        shapes={} if len(flat.shape) == 1 else {0: flat.shape},
        lengths={0: flat.words.size} if domain else {},
        tag=tag,
    )
    return packed(device, entries, extension)


def encoded_many(
    device: Device,
    flats: Mapping[str, DeviceFlat],
    schemes: Mapping[str, Scheme],
    seed: int,
    tag: bytes,
    *,
    names: bool,
) -> Any:
    """Named tensors, in the order of their keys, as one container. EncodeError names the tensor."""
    entries: list[Entry] = []
    lengths = {}
    for key, (name, flat) in enumerate(flats.items()):
        try:
            ext.check_shape(flat.shape)
            found, domain = entries_of(device, key, flat, schemes[name], seed)
        except EncodeError as error:
            raise error.of(name) from None
        entries += found
        if domain:
            lengths[key] = flat.words.size
    extension = ext.Extension(
        names=tuple(flats) if names else None,
        shapes={key: flat.shape for key, flat in enumerate(flats.values()) if len(flat.shape) != 1},
        lengths=lengths,
        tag=tag,
    )
    return packed(device, entries, extension)


def entries_of(
    device: Device, key: int, flat: DeviceFlat, scheme: Scheme, seed: int
) -> tuple[list[Entry], int]:
    """The chunks of a tensor, coded; and the domain of its coefficients, 0 where it was not transformed.

    Sections are arrays of the device, or of the host where a codec has no kernels. Raises EncodeError.
    """
    if scheme.transform is None and has_kernels(scheme.select, flat.words.size):
        try:
            support = select(device, flat, scheme.select, mix(seed, key))
            signed_anew = support.scale is not None and is_lossy(scheme.index)  # for which there is no kernel
            if sections.has_kernels(scheme.index, scheme.value) and not signed_anew:
                return _coded(device, key, support, scheme, seed), 0
            return list(chunks_of(key, _staged(device, support), scheme, seed)), 0
        except Refused:
            pass
    host = read_only(device.get(flat.words).view(flat.dtype))
    support_there, _ = choose(Flat(host, flat.shape), scheme, seed=mix(seed, key))
    return list(chunks_of(key, support_there, scheme, seed)), support_there.domain


def _coded(device: Device, key: int, support: DeviceSupport, scheme: Scheme, seed: int) -> list[Entry]:
    """The chunks, their sections on the device; Refused where a value cannot be carried."""
    size, dtype = support.flat.words.size, support.flat.dtype
    bases = range(0, max(size, 1), CHUNK)
    ends = [*bases[1:], size]
    if support.indices is not None and len(bases) > 1:
        edges = device.get(bits.cuts(device, support.indices, CHUNK, size))
        ends = [*edges.tolist(), support.indices.size]
    elif support.indices is not None:
        ends = [support.indices.size]
    entries = []
    for base, start, stop in zip(bases, [0, *ends], ends, strict=False):
        d, words = min(CHUNK, size - base), support.words[start:stop]
        index: Any = np.empty(0, np.uint8)
        stream = mix(seed, key, base)
        if 0 < words.size < d:
            there = support.indices[start:stop]
            if isinstance(scheme.index, Bloom):
                section, found = sections.approximated(device, scheme.index, there, base, d, stream)
                words = elements.gathered(device, support.flat.words, found)
                index = section if words.size < d else index
            else:
                index = sections.index_section(device, scheme.index, there, base, d)
        wire_id, value = sections.value_section(device, scheme.value, words, dtype, stream)
        codec: Any = scheme.index
        entries.append(Entry(key, base, d, words.size, dtype, 0, codec.wire_id, wire_id, index, value))
    return entries


def _staged(device: Device, support: DeviceSupport) -> Support:
    """What was selected, on the host; other elements are fetched where a lossy index codec asks for them."""
    flat = support.flat
    values = read_only(device.get(support.words).view(flat.dtype))
    size = flat.words.size
    if support.indices is None:
        return Support(None, values, size, flat.shape)

    def source(where: Array) -> Array:
        numbers = device.put(np.ascontiguousarray(where, np.uint32))
        found: Array = device.get(elements.gathered(device, flat.words, numbers)).view(flat.dtype)
        return scaled(found, support.scale)

    indices = read_only(device.get(support.indices).astype(index_dtype(size)))
    return Support(indices, values, size, flat.shape, source)


def packed(device: Device, entries: Sequence[Entry], extension: ext.Extension) -> Any:
    """The container of entries, whose sections lie on the device or on the host, as u8 on the device.

    What comes to the host is the entries' checksums, to be put into the head.
    """
    block = ext.write(extension)
    payload, places, total = container.layout(entries, block)
    blob = device.empty(total, np.uint8)
    device.clear(blob)
    crcs = device.empty(len(entries), np.uint32)
    for number, (entry, (start, stop)) in enumerate(zip(entries, places, strict=True)):
        at = start
        for part in entry.parts:
            there = device.put(part) if isinstance(part, np.ndarray) else part  # a codec without kernels
            device.copy(there, blob[at : at + part.size])
            at += part.size + ext.pad8(part.size)
        device.copy(checksum.crc32(device, blob[start:stop]), crcs[number : number + 1])
    head = container.head_of(entries, device.get(crcs).tolist(), block, total)
    device.copy(device.put(np.frombuffer(head, np.uint8)), blob[:payload])
    return blob
