"""A tensor on a device as a container on it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from wirecodec.arrays import DeviceFlat, Flat, read_only
from wirecodec.container import extension as ext
from wirecodec.container import layout
from wirecodec.container.layout import CHUNK, Entry
from wirecodec.cpu.chunk import encode_chunks
from wirecodec.cpu.fuse import make_entries
from wirecodec.cpu.select import choose
from wirecodec.errors import EncodeError
from wirecodec.gpu import chunk
from wirecodec.gpu.fuse import joined
from wirecodec.gpu.select.adacomp import signed
from wirecodec.gpu.select.dispatch import has_kernels, select
from wirecodec.gpu.support import Context, DeviceSupport, Refused, has_nonfinite, staged
from wirecodec.index.bloom import Bloom
from wirecodec.kernels.cuda import bits, checksum, elements
from wirecodec.kernels.cuda.device import Device
from wirecodec.prng import mix
from wirecodec.scheme import Scheme
from wirecodec.support import Support

__all__ = ["chosen", "encoded", "encoded_many", "encoded_supports", "entries_of", "on_host", "packed"]


def encoded(device: Device, flat: DeviceFlat, scheme: Scheme, seed: int, tag: bytes) -> Any:
    """One tensor as a container, u8 on the device. Raises EncodeError."""
    support, _ = chosen(device, flat, scheme, Context(mix(seed, 0)))
    ext.check_shape(flat.shape)
    entries = entries_of(device, 0, support, scheme, seed)
    extension = ext.Extension(
        shapes={} if len(flat.shape) == 1 else {0: flat.shape},
        lengths={0: flat.words.size} if support.domain else {},
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
    fuse: int = 0,
) -> Any:
    """Named tensors, in the order of their keys, as one container. EncodeError names the tensor."""
    supports = {}
    for key, (name, flat) in enumerate(flats.items()):
        try:
            supports[name], _ = chosen(device, flat, schemes[name], Context(mix(seed, key)))
        except EncodeError as error:
            raise error.of(name) from None
    return encoded_supports(device, supports, schemes, seed, tag, names=names, fuse=fuse)


def chosen(
    device: Device, flat: DeviceFlat, scheme: Scheme, context: Context
) -> tuple[DeviceSupport | Support, Any]:
    """What a scheme takes of a tensor, and its selector's state for the next step.

    It lies on the host where the selector has no kernels, or one met what it refuses. Raises EncodeError.
    """
    if scheme.transform is None and has_kernels(scheme.select, flat.words.size):
        try:
            support = select(device, flat, scheme.select, context)
            return support, support.state
        except Refused:
            pass
    host, gradient = on_host(device, flat), None
    if context.gradient is not None:
        gradient = host.data if context.gradient is flat else on_host(device, context.gradient).data
    return choose(host, scheme, gradient=gradient, state=context.state, seed=context.seed)


def on_host(device: Device, flat: DeviceFlat) -> Flat:
    """A copy of a tensor."""
    return Flat(read_only(device.get(flat.words).view(flat.dtype)), flat.shape)


def encoded_supports(
    device: Device,
    supports: Mapping[str, DeviceSupport | Support],
    schemes: Mapping[str, Scheme],
    seed: int,
    tag: bytes,
    *,
    names: bool,
    fuse: int,
) -> Any:
    """What was selected of named tensors, given in the order of their keys, as one container."""

    def coded(key: int, members: Sequence[DeviceSupport | Support], scheme: Scheme) -> list[Entry]:
        one = joined(device, members, scheme) if len(members) > 1 else members[0]
        return entries_of(device, key, one, scheme, seed)

    entries, extension = make_entries(supports, schemes, coded, tag=tag, names=names, fuse=fuse)
    return packed(device, entries, extension)


def entries_of(
    device: Device, key: int, support: DeviceSupport | Support, scheme: Scheme, seed: int
) -> list[Entry]:
    """The chunks of what was selected, coded.

    Sections are arrays of the device, or of the host where a codec has no kernels. Raises EncodeError.
    """
    if isinstance(support, DeviceSupport):
        if chunk.has_kernels(scheme.index, scheme.value):
            try:
                return _coded(device, key, support, scheme, seed)
            except Refused:
                pass
        support = staged(device, support)
    return list(encode_chunks(key, support, scheme, seed))


def _coded(device: Device, key: int, support: DeviceSupport, scheme: Scheme, seed: int) -> list[Entry]:
    """The chunks, their sections on the device; Refused if a value cannot be carried."""
    size, dtype = support.size, support.dtype
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
                if scheme.index.policy != "p0" and has_nonfinite(device, words, dtype):
                    raise Refused  # readers may not find that element
                section, found = chunk.approximated(device, scheme.index, there, base, d, stream)
                words = elements.gathered(device, support.flat.words, found)
                if support.scale is not None:
                    words = signed(device, words, dtype, support.scale)
                index = section if words.size < d else index
            else:
                index = chunk.index_section(device, scheme.index, there, base, d)
        wire_id, value = chunk.value_section(device, scheme.value, words, dtype, stream)
        codec: Any = scheme.index
        entries.append(Entry(key, base, d, words.size, dtype, 0, codec.wire_id, wire_id, index, value))
    return entries


def packed(device: Device, entries: Sequence[Entry], extension: ext.Extension) -> Any:
    """The container of entries, whose sections lie on the device or on the host, as u8 on the device.

    What comes to the host is the entries' checksums, to be put into the head.
    """
    block = ext.write(extension)
    payload, places, total = layout.layout(entries, block)
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
    head = layout.header_bytes(entries, device.get(crcs).tolist(), block, total)
    device.copy(device.put(np.frombuffer(head, np.uint8)), blob[:payload])
    return blob
