"""Fused entries on the device: concatenate small tensors, and split them again (``wirecodec.cpu.fuse``)."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from wirecodec.arrays import Array
from wirecodec.cpu import fuse
from wirecodec.gpu.arrays import concatenate
from wirecodec.gpu.index.base import rebase
from wirecodec.gpu.support import DeviceSupport, support_to_host
from wirecodec.kernels.cuda import bits
from wirecodec.kernels.cuda.device import Device
from wirecodec.settings.scheme import Scheme
from wirecodec.support import DecodedChunk, Support
from wirecodec.tensors import DeviceFlat


def concatenate_supports(
    device: Device, supports: Sequence[DeviceSupport | Support], scheme: Scheme
) -> DeviceSupport | Support:
    """Concatenate the selected elements of small tensors.

    The result is on the host if one of them is, or if a lossy index codec must gather values of one
    magnitude.
    """
    on_device = [support for support in supports if isinstance(support, DeviceSupport)]
    lossy = scheme.index.lossy
    if len(on_device) < len(supports) or (lossy and any(support.scale is not None for support in on_device)):
        return fuse.concatenate(
            [
                support_to_host(device, support) if isinstance(support, DeviceSupport) else support
                for support in supports
            ]
        )
    starts = np.cumsum([0] + [support.size for support in on_device]).tolist()
    raw = concatenate(device, [support.raw_bits for support in on_device])
    size = starts[-1]
    # Only a lossy codec reads unselected elements. Otherwise the tensor's content does not matter.
    elements = concatenate(device, [support.flat.raw_bits for support in on_device]) if lossy else None
    flat = DeviceFlat(
        device.empty(size, raw.dtype) if elements is None else elements, on_device[0].dtype, (size,)
    )
    if raw.size == size:
        return DeviceSupport(None, raw, flat)
    indices = [
        _indices_from(device, support.indices, start, support.size)
        for support, start in zip(on_device, starts, strict=False)
    ]
    return DeviceSupport(concatenate(device, indices), raw, flat)


def _indices_from(device: Device, indices: Any, start: int, size: int) -> Any:
    """Return the indices of a tensor that begins at ``start``; None stands for all ``size`` elements."""
    if indices is None:
        return device.put(np.arange(start, start + size, dtype=np.uint32))
    return rebase(device, indices, -start % 2**32)


def split_part(device: Device, part: DecodedChunk, group: Array) -> dict[int, list[DecodedChunk]]:
    """Split a fused entry into its members.

    ``group`` has a row (key, size) for each. Returns chunks by key.
    """
    edges = np.cumsum([0, *group[:, 1]]).astype(np.uint32)
    cuts = edges if part.indices is None else device.get(bits.count_below(device, part.indices, edges))
    members = {}
    spans = zip(group.tolist(), edges.tolist(), pairwise(cuts.tolist()), strict=False)
    for (key, size), edge, (start, stop) in spans:
        indices = None
        if part.indices is not None and stop - start < size:
            indices = bits.subtract_base(device, part.indices[start:stop], edge, np.uint32)
        members[key] = [DecodedChunk(0, size, indices, part.values[start:stop])]
    return members
