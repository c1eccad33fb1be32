"""Fused entries on the device: concatenate small tensors, and split them again (``wirecodec.cpu.fuse``)."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from wirecodec.arrays import Array, DeviceFlat
from wirecodec.cpu import fuse
from wirecodec.gpu.support import DeviceSupport, concatenated, staged
from wirecodec.index.base import is_lossy
from wirecodec.kernels.cuda import bits
from wirecodec.kernels.cuda.device import Device
from wirecodec.scheme import Scheme
from wirecodec.support import DecodedChunk, Support

__all__ = ["joined", "parted"]


def joined(
    device: Device, supports: Sequence[DeviceSupport | Support], scheme: Scheme
) -> DeviceSupport | Support:
    """Small tensors as one. On the host where one of them is, or where signs are to be gathered anew."""
    there = [each for each in supports if isinstance(each, DeviceSupport)]
    anew = is_lossy(scheme.index)
    if len(there) < len(supports) or (anew and any(each.scale is not None for each in there)):
        return fuse.concatenate(
            [staged(device, each) if isinstance(each, DeviceSupport) else each for each in supports]
        )
    starts = np.cumsum([0] + [each.size for each in there]).tolist()
    words = concatenated(device, [each.words for each in there])
    # A codec that is not lossy asks for no elements but those selected: any memory of that size will do.
    whole = concatenated(device, [each.flat.words for each in there]) if anew else None
    size = starts[-1]
    flat = DeviceFlat(device.empty(size, words.dtype) if whole is None else whole, there[0].dtype, (size,))
    if words.size == size:
        return DeviceSupport(None, words, flat)
    indices = [
        _from(device, each.indices, start, each.size) for each, start in zip(there, starts, strict=False)
    ]
    return DeviceSupport(concatenated(device, indices), words, flat)


def _from(device: Device, indices: Any, start: int, size: int) -> Any:
    """A tensor's indices where it begins at ``start``."""
    if indices is None:
        return device.put(np.arange(start, start + size, dtype=np.uint32))
    return bits.counted_from(device, indices, -start % 2**32, np.uint32) if start else indices


def parted(device: Device, part: DecodedChunk, group: Array) -> dict[int, list[DecodedChunk]]:
    """A fused entry's members, (key, size) a row, as tensors of their own, by key."""
    edges = np.cumsum([0, *group[:, 1]]).astype(np.uint32)
    cuts = edges if part.indices is None else device.get(bits.below(device, part.indices, edges))
    members = {}
    spans = zip(group.tolist(), edges.tolist(), pairwise(cuts.tolist()), strict=False)
    for (key, size), edge, (a, b) in spans:
        indices = None
        if part.indices is not None and b - a < size:
            indices = bits.counted_from(device, part.indices[a:b], edge, np.uint32)
        members[key] = [DecodedChunk(0, size, indices, part.values[a:b])]
    return members
