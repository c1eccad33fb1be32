"""Decoding of containers and their addition to arrays on a GPU, in one launch per stage, with one wait.

It takes containers whose entries are of ``rice`` or whole tensors, and of ``qsgd`` or ``raw``. Others, and
those that fail a check, take the plain way, which finds the first entry at fault.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from wirecodec.arrays import Array, Bytes
from wirecodec.container.checksum import has_zero_padding
from wirecodec.container.reader import ContainerHeader
from wirecodec.container.writer import LENGTHS
from wirecodec.cpu import forms
from wirecodec.element_types import DTYPES
from wirecodec.index.rice import Rice
from wirecodec.kernels.cuda import batch_sums
from wirecodec.kernels.cuda.batch import write_checksums
from wirecodec.kernels.cuda.device import Device
from wirecodec.kernels.cuda.packing import packed_words
from wirecodec.kernels.cuda.stages import SUFFIX
from wirecodec.kernels.layout import PACK_BLOCK, RICE_BLOCK, RICE_SPAN
from wirecodec.value.qsgd import QSGD
from wirecodec.value.raw import Raw, RawBfloat16, RawFloat16

_STORED = {codec.wire_id: codec.stored for codec in (RawFloat16, RawBfloat16)}
"""Types in which codecs store raw values, by wire id; others store the tensor's type."""


def add(
    device: Device, containers: Sequence[tuple[Bytes, ContainerHeader]], targets: Sequence[Any], scale: float
) -> bool:
    """Add scale * values of containers to (size,) float32 arrays; return False if nothing was done.

    Args:
        device: of the arrays.
        containers: (bytes on the host, checked header) of each.
        targets: an array per key.
        scale: factor, rounded to float32.
    """
    if not forms.is_on() or any(target.dtype != np.float32 for target in targets):
        return False
    addresses = np.array([device.address(target) if target.size else 0 for target in targets], np.uint64)
    sizes = [header.table.size for _, header in containers]
    checks = device.empty(2 * sum(sizes), np.uint32)  # which entries are bad, then all checksums
    device.clear(checks)
    decoded, first = [], 0
    for (data, header), size in zip(containers, sizes, strict=True):
        here = slice(first, first + size), slice(sum(sizes) + first, sum(sizes) + first + size)
        groups = _decode(device, data, header, addresses, *(checks[each] for each in here))
        if groups is None:
            return False
        decoded += groups
        first += size
    bad, crcs = device.get(checks).reshape(2, -1)
    if bad.any() or (crcs != np.concatenate([header.table["crc"] for _, header in containers])).any():
        return False
    for one in decoded:
        one.add(device, scale)
    return True


def _decode(
    device: Device, data: Bytes, header: ContainerHeader, addresses: Array, bad: Any, crcs: Any
) -> list[batch_sums.Coded] | None:
    """Decode a container to the device; None if an entry is of another kind, or a check has failed.

    ``bad`` and ``crcs``, (entries,) u32, zeroed, receive failed checks of values, and the checksums.
    """
    extension, table = header.extension, header.table
    if extension.is_transformed or any(True for _ in extension.groups()) or not table.size:
        return None
    lengths = np.array([table[name] for name in LENGTHS], np.int64)
    ends = header.payload + np.cumsum(((lengths + 7) & -8).T).reshape(-1, len(LENGTHS)).T
    starts = np.concatenate([[header.payload], ends[-1, :-1]])
    if lengths[2].any() or not has_zero_padding(data, lengths, ends):
        return None
    if lengths[:, table["r"] == 0].any():
        return None
    kinds = table["value"].astype(np.int64) << 8 | table["dtype"]
    container, groups, first = device.put(data), [], 0
    write_checksums(device, np.array([starts, ends[-1]]), container, crcs)
    for kind in np.unique(kinds[table["r"] > 0]).tolist():
        here = np.flatnonzero((kinds == kind) & (table["r"] > 0))
        rows, sizes = table[here], lengths[:, here]
        codec, dtype = kind >> 8, DTYPES[(kind & 15) - 1]
        stored = _STORED.get(codec, dtype)
        d, r = rows["d"].astype(np.int64), rows["r"].astype(np.int64)
        if stored.name not in SUFFIX or (codec in _STORED and dtype.itemsize == 2):
            return None
        bits = _find_bits(data, ends[0, here], sizes[1], r, codec, stored)
        directory = -(-(48 * (-(-r // RICE_SPAN) - 1) + 5 * -(-r // RICE_BLOCK)) // 32)
        partial = r < d
        fits = np.where(partial, (sizes[0] % 4 == 0) & (sizes[0] >= 4 * directory), sizes[0] == 0)
        if bits is None or not fits.all() or (rows["index"][partial] != Rice.wire_id).any():
            return None
        places = np.array([starts[here], ends[0, here], sizes[0]])
        out = addresses[rows["key"]] + np.uint64(4) * rows["base"].astype(np.uint64)
        both = np.array([d, r])
        checked = bad[first : first + here.size]
        groups.append(batch_sums.decode(device, container, places, both, bits, stored, out, checked))
        first += here.size
    return groups


def _find_bits(
    data: Bytes, starts: Array, lengths: Array, r: Array, kind: int, dtype: np.dtype[Any]
) -> Array | None:
    """Return the bits of QSGD's codes of each value section, 0 for raw values; None for another kind.

    Args:
        data: the container.
        starts, lengths: (n,) of the sections.
        r: (n,) values of each.
        kind: wire id of the codec.
        dtype: of the values.
    """
    if kind == Raw.wire_id or kind in _STORED:
        return np.zeros(r.size, np.int64) if (lengths == dtype.itemsize * r).all() else None
    if kind != QSGD.wire_id or (lengths < 8).any():
        return None
    words = data.view("<u4")
    first, bucket = words[starts >> 2], words[(starts >> 2) + 1]
    bits = (first & 0xFF).astype(np.int64)
    if (first >> 9).any() or (bucket != PACK_BLOCK).any() or bits.min() < 2 or bits.max() > 8:
        return None
    packed = packed_words(r, bits)
    return bits if (lengths == 8 + 4 * (-(-r // PACK_BLOCK) + packed)).all() else None
