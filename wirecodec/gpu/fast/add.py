"""Decoding of containers and their addition to arrays on a GPU, in one launch per stage, with one wait.

It takes containers whose entries are all of ``rice`` and ``qsgd``, or all of ``rice`` and ``raw``. Others,
and those that fail a check, take the plain way, which finds the first entry at fault.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from wirecodec.arrays import DTYPES, Array, Bytes
from wirecodec.container.reader import ContainerHeader
from wirecodec.container.writer import LENGTHS
from wirecodec.cpu import fast
from wirecodec.cpu.fast.decode import is_intact
from wirecodec.gpu.arrays import concatenate
from wirecodec.index.rice import Rice
from wirecodec.kernels.cuda import batch_sums
from wirecodec.kernels.cuda.device import Device
from wirecodec.kernels.cuda.packing import packed_words
from wirecodec.kernels.layout import PACK_BLOCK, RICE_BLOCK, RICE_SPAN
from wirecodec.value.qsgd import QSGD
from wirecodec.value.raw import Raw


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
    if not fast.is_on() or any(target.dtype != np.float32 for target in targets):
        return False
    addresses = np.array([device.address(target) if target.size else 0 for target in targets], np.uint64)
    decoded = []
    for data, header in containers:
        coded = _decode(device, data, header, addresses)
        if coded is None:
            return False
        decoded.append(coded)
    if decoded and device.get(concatenate(device, [one.bad for one in decoded])).any():
        return False
    for one in decoded:
        one.add(device, scale)
    return True


def _decode(
    device: Device, data: Bytes, header: ContainerHeader, addresses: Array
) -> batch_sums.Coded | None:
    """Decode a container to the device; None if an entry is of another kind, or a check has failed."""
    extension = header.extension
    table = header.table
    if extension.is_transformed or any(True for _ in extension.groups()) or not table.size:
        return None
    lengths = np.array([table[name] for name in LENGTHS], np.int64)
    ends = header.payload + np.cumsum(((lengths + 7) & -8).T).reshape(-1, len(LENGTHS)).T
    starts = np.concatenate([[header.payload], ends[-1, :-1]])
    if not is_intact(data, table["crc"], starts, lengths, ends):
        return None
    here = np.flatnonzero(table["r"])
    if not here.size or (lengths.sum(axis=0)[table["r"] == 0]).any():
        return None
    rows, lengths = table[here], lengths[:, here]
    kind, dtype = int(rows["value"][0]), DTYPES[(int(rows["dtype"][0]) & 15) - 1]
    same = (rows["value"] == kind).all() and (rows["dtype"] == rows["dtype"][0]).all()
    if not same or dtype.name not in batch_sums.SUFFIX or lengths[2].any():
        return None
    d, r = rows["d"].astype(np.int64), rows["r"].astype(np.int64)
    bits = _find_bits(data, ends[0, here], lengths[1], r, kind, dtype)
    directory = -(-(48 * (-(-r // RICE_SPAN) - 1) + 5 * -(-r // RICE_BLOCK)) // 32)
    partial = r < d
    fits = np.where(partial, (lengths[0] % 4 == 0) & (lengths[0] >= 4 * directory), lengths[0] == 0)
    if bits is None or not fits.all() or (rows["index"][partial] != Rice.wire_id).any():
        return None
    places = np.array([starts[here], ends[0, here], lengths[0]])
    width = np.uint64(4)
    out = addresses[rows["key"]] + width * rows["base"].astype(np.uint64)
    return batch_sums.decode(device, device.put(data), places, np.array([d, r]), bits, dtype, out)


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
    if kind == Raw.wire_id:
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
