"""Encode tensors on a device as a container on it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from wirecodec.container import extension_writer as ext
from wirecodec.container import writer
from wirecodec.container.writer import Entry
from wirecodec.cpu.costs import share_header
from wirecodec.cpu.fuse import Run, encode_runs, find_vectors, kinds_of, lengths_of, list_members, plan_runs
from wirecodec.errors import EncodeError
from wirecodec.gpu.chunk import encode_chunks
from wirecodec.gpu.fast import encode as fast_encode
from wirecodec.gpu.fuse import concatenate_supports
from wirecodec.gpu.select.common import Context
from wirecodec.gpu.select.dispatch import choose
from wirecodec.gpu.support import DeviceSupport
from wirecodec.kernels.cuda import checksum
from wirecodec.kernels.cuda.device import Device
from wirecodec.prng import mix
from wirecodec.settings.scheme import Scheme
from wirecodec.support import Support
from wirecodec.tensors import DeviceFlat


def encode(device: Device, flat: DeviceFlat, scheme: Scheme, seed: int, tag: bytes) -> Any:
    """Encode one tensor as a container, u8 on the device. Raises EncodeError."""

    def write(lengths: Mapping[int, int]) -> bytes:
        ext.check_shape(flat.shape)
        shapes = {} if len(flat.shape) == 1 else {0: flat.shape}
        return ext.write(ext.Extension(shapes=shapes, lengths=dict(lengths), tag=tag))

    batched = fast_encode.encode(device, {"": flat}, {"": scheme}, seed, partial(write, {}))
    if batched is not None:
        return batched
    header = share_header({"": flat}, {"": scheme}, tag, names=False)
    support, _ = choose(device, flat, scheme, Context(mix(seed, 0), header=header))
    block = write({0: flat.raw_bits.size} if support.domain else {})
    return pack(device, encode_chunks(device, 0, support, scheme, seed), block)


def encode_many(
    device: Device,
    flats: Mapping[str, DeviceFlat],
    schemes: Mapping[str, Scheme],
    seed: int,
    tag: bytes,
    *,
    names: bool,
    fuse: int = 0,
) -> Any:
    """Encode named tensors, in the order of their keys, as one container. EncodeError names the tensor."""
    if not fuse and flats:
        shapes = tuple(flat.shape for flat in flats.values())
        write = partial(ext.write_model, tuple(flats), shapes, {}, tag, names_stored=names)
        batched = fast_encode.encode(device, flats, schemes, seed, write)
        if batched is not None:
            return batched
    supports = {}
    header = share_header(flats, schemes, tag, names=names)
    for key, (name, flat) in enumerate(flats.items()):
        try:
            context = Context(mix(seed, key), header=header)
            supports[name], _ = choose(device, flat, schemes[name], context)
        except EncodeError as error:
            raise error.of(name) from None
    return encode_supports(device, supports, schemes, seed, tag, names=names, fuse=fuse)


def encode_supports(
    device: Device,
    supports: Mapping[str, DeviceSupport | Support],
    schemes: Mapping[str, Scheme],
    seed: int,
    tag: bytes,
    *,
    names: bool,
    fuse: int,
) -> Any:
    """Encode the selected elements of named tensors, in the order of their keys, as one container."""

    listed, members, chosen = list(supports), list(supports.values()), list(schemes.values())
    sizes, kinds = tuple(one.size for one in members), tuple(kinds_of(members, chosen, {}))
    vectors = find_vectors(dict(enumerate(members)))
    others = {key for rows in vectors for key in rows[1:, 0].tolist()}
    runs = [run for run in plan_runs(sizes, kinds, fuse) if run[0] not in others]
    shapes = tuple(one.shape for one in members)
    lengths = lengths_of(dict(enumerate(members)), vectors)
    records: dict[str, Any] = {"groups": list_members(sizes, tuple(runs)), "joined": vectors}
    block = ext.write_model(tuple(listed), shapes, lengths, tag, names_stored=names, **records)

    def encode_run(run: Run) -> list[Entry]:
        scheme, parts = chosen[run[0]], [members[key] for key in run]
        support = concatenate_supports(device, parts, scheme) if len(parts) > 1 else parts[0]
        return encode_chunks(device, run[0], support, scheme, seed)

    return pack(device, encode_runs(runs, listed, sizes, encode_run), block)


def pack(device: Device, entries: Sequence[Entry], block: bytes) -> Any:
    """Write a container, u8 on the device, of entries whose sections are on the device or on the host.

    Only the entries' checksums are copied to the host, which writes the header.
    """
    payload, places, total = writer.layout(entries, block)
    blob = device.empty(total, np.uint8)
    device.clear(blob)
    checksums = device.empty(len(entries), np.uint32)
    for number, (entry, (start, stop)) in enumerate(zip(entries, places, strict=True)):
        at = start
        for part in entry.parts:
            move = device.write if isinstance(part, np.ndarray) else device.copy  # a codec without kernels
            move(part, blob[at : at + part.size])
            at += part.size + ext.pad8(part.size)
        device.copy(checksum.crc32(device, blob[start:stop]), checksums[number : number + 1])
    header_data = writer.header_bytes(entries, device.get(checksums).tolist(), block, total)
    device.write(np.frombuffer(header_data, np.uint8), blob[:payload])
    return blob
