"""From decoded chunks on the device to tensors, or into sums (``wirecodec.cpu.decode``)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from wirecodec.gpu.arrays import concatenate
from wirecodec.gpu.index.base import rebase
from wirecodec.kernels.cuda import bits, elements
from wirecodec.kernels.cuda.device import Device
from wirecodec.support import DecodedChunk


def add_part(device: Device, out: Any, part: DecodedChunk, dtype: np.dtype[Any], scale: float) -> None:
    """Add scale * values to an array; each value, product and sum is rounded to the array's type.

    Args:
        device: where everything is.
        out: flat, float32 or float64; the whole tensor.
        part: one of its chunks.
        dtype: element type of the chunk's raw bits.
        scale: factor, rounded to the array's type.
    """
    chunk = out[part.base : part.base + part.d]
    values = elements.convert(device, part.values, dtype, out.dtype)
    bits.add_scaled(device, chunk, part.indices, values, scale)


def concatenate_parts(device: Device, parts: Sequence[DecodedChunk], size: int) -> tuple[Any, Any]:
    """Concatenate a tensor's chunks.

    Return (r,) int32 indices, None if all are present, and (r,) raw bits.
    """
    raw = concatenate(device, [part.values for part in parts])
    if raw.size == size:
        return None, raw
    pieces = []
    for part in parts:
        local = device.put(np.arange(part.d, dtype=np.uint32)) if part.indices is None else part.indices
        pieces.append(rebase(device, local, -part.base % 2**32))
    return concatenate(device, pieces).view(np.int32), raw
