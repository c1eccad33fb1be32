"""The selected elements of a tensor on the device."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from wirecodec.arrays import Array, index_dtype, read_only
from wirecodec.cpu.select import scaled
from wirecodec.kernels.cuda import elements
from wirecodec.kernels.cuda.device import Device
from wirecodec.support import Support
from wirecodec.tensors import DeviceFlat


@dataclass(frozen=True, eq=False)
class DeviceSupport:
    """Selected elements of a tensor, on the device.

    Attributes:
        indices: (r,) u32, ascending; None for all elements.
        raw_bits: (r,) raw bits of the selected values.
        flat: the tensor.
        scale: magnitude of all values, if the selector sends one; else None.
        state: the selector's state for the tensor's next step, on the host, or None.
    """

    indices: Any
    raw_bits: Any
    flat: DeviceFlat
    scale: float | None = None
    state: Any = None
    domain: ClassVar[int] = 0
    step: ClassVar[None] = None
    shared: ClassVar[None] = None
    vector: ClassVar[None] = None

    @property
    def size(self) -> int:
        """Number of elements of the tensor."""
        return int(self.flat.raw_bits.size)

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the tensor."""
        return self.flat.shape

    @property
    def dtype(self) -> np.dtype[Any]:
        """Element type of the tensor."""
        return self.flat.dtype


def support_to_host(device: Device, support: DeviceSupport) -> Support:
    """Copy the selected elements to the host.

    A lossy index codec fetches further elements one batch at a time.
    """
    flat = support.flat
    values = read_only(device.get(support.raw_bits).view(flat.dtype))
    size = support.size
    if support.indices is None:
        return Support(None, values, size, flat.shape)

    def source(positions: Array) -> Array:
        numbers = device.put(np.ascontiguousarray(positions, np.uint32))
        fetched: Array = device.get(elements.gather(device, flat.raw_bits, numbers)).view(flat.dtype)
        return scaled(fetched, support.scale)

    indices = read_only(device.get(support.indices).astype(index_dtype(size)))
    return Support(indices, values, size, flat.shape, source)
