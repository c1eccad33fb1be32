"""Operations on the bits of CuPy arrays and of torch's CUDA tensors, on their GPU.

The host gets changed elements, digests and counts, never a whole tensor. Exceptions are tensors that are
coded whole or densely. Bool, whose bytes are checked, complex numbers, and tensors of several devices are
copied to the host, as all are without CuPy.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

from wirecodec.arrays import Array
from wirecodec.element_types import element_dtype_named
from wirecodec.errors import DeviceError, EncodeError
from wirecodec.gpu.arrays import concatenate
from wirecodec.kernels.cuda import device as devices
from wirecodec.kernels.cuda import digest, elements, positions
from wirecodec.kernels.scale import Scale
from wirecodec.patch.bits import Bits
from wirecodec.tensors import as_device_flat, is_torch

_PIECE = 2**22
"""Elements of a copy to the host."""


@dataclass(frozen=True)
class GpuForms:
    """Operations of one GPU; ``wirecodec.patch.bits.Forms`` describes them.

    Attributes:
        number: CUDA's number of the device.
    """

    number: int

    def settle(self) -> None:
        """Wait for the caller's streams: threads read tensors on streams of their own."""
        for follows_torch in (False, True):
            with devices.device_numbered(self.number, follows_torch=follows_torch) as device:
                device.cupy.cuda.get_current_stream().synchronize()

    def read(self, tensor: Any) -> Bits:
        """View a tensor; one that is not contiguous is copied on the device."""
        with devices.device_numbered(self.number, follows_torch=is_torch(tensor)) as device:
            flat = as_device_flat(tensor, device.cupy, named=element_dtype_named)
        return Bits(flat.raw_bits, flat.dtype, flat.shape, self)

    def view(self, tensor: Any, dtype: np.dtype[Any]) -> Any:
        """View a contiguous tensor; ``find_forms`` takes no lazy negatives."""
        is_contiguous = tensor.is_contiguous() if is_torch(tensor) else tensor.flags.c_contiguous
        return self.read(tensor).bits if is_contiguous else None

    def copy_to_host(self, bits: Any) -> Array:
        """Copy the elements."""
        with devices.device_numbered(self.number) as device:
            return _fetch(device, bits)

    @contextmanager
    def join(self, parts: Sequence[Any]) -> Iterator[Any]:
        """Lend elements as one array; several are copied on the device."""
        with devices.device_numbered(self.number) as device:
            whole = concatenate(device, parts)
        yield whole

    def sum_elements(self, bits: Any) -> int:
        """Add up the mixed words."""
        with devices.device_numbered(self.number) as device:
            return digest.sum_words(device, bits)

    def sum_change(self, bits: Any, indices: Array, values: Array) -> int:
        """Return by how much the sum changes."""
        with devices.device_numbered(self.number) as device:
            return digest.sum_change(device, bits, device.put(indices), device.put(values))

    def find_changes(self, old: Any, new: Any, *, digests: bool) -> tuple[Array, tuple[int, int]]:
        """Find the elements that differ, in one reading of both arrays."""
        with devices.device_numbered(self.number) as device:
            indices, sums = digest.find_changes(device, old, new, digests=digests)
            return _fetch(device, indices), sums

    def take(self, bits: Any, indices: Array) -> Array:
        """Copy some elements to the host."""
        with devices.device_numbered(self.number) as device:
            return device.get(elements.gather(device, bits, device.put(indices)))

    def scatter(self, bits: Any, indices: Array, values: Array) -> None:
        """Replace some elements, on the caller's stream: torch's, unless the program has set one in CuPy."""
        with devices.device_numbered(self.number, follows_torch=True) as device:
            elements.replace(device, bits, device.put(indices), device.put(values))

    def count_rows(self, bits: Any, shift: int, step: int, rows: int) -> Array:
        """Count the rows of elements."""
        with devices.device_numbered(self.number) as device:
            return positions.count_rows(device, bits, shift, step, rows)

    def measure_gaps(self, bits: Any, scale: Scale, indices: Array) -> tuple[Array, Array]:
        """Measure the weights between changes; the sums up to each come from the device."""
        with devices.device_numbered(self.number) as device:
            here, weights = positions.measure(device, bits, scale, indices)
        own = weights.astype(np.uint64)
        gaps = here.copy()
        gaps[1:] -= here[:-1] + own[:-1]
        firsts = np.searchsorted(indices, scale.starts[:-1].astype(np.uint32))
        firsts = firsts[firsts < indices.size]  # the gap of a lane's first change begins with the lane
        gaps[firsts] = here[firsts]
        return gaps, own

    def read_positions(
        self, bits: Any, scale: Scale, cuts: Array, tables: tuple[Array, Array], words: Array
    ) -> Array | None:
        """Decode positions."""
        with devices.device_numbered(self.number) as device:
            indices, is_valid = positions.read(device, bits, scale, cuts, tables[0], words)
            return _fetch(device, indices) if is_valid else None


def _fetch(device: devices.Device, array: Any) -> Array:
    """Copy an array to memory of the host that is not pinned: the pool of pinned memory keeps all of it."""
    host: Array = np.empty(array.size, array.dtype)
    for at in range(0, host.size, _PIECE):
        host[at : at + _PIECE] = device.get(array[at : at + _PIECE])
    return host


def find_forms(tensor: Any) -> GpuForms | None:
    """Return the operations for a tensor on a GPU; None if the host must read a copy of it."""
    number = _find_number(tensor)
    if number is None or not _has_cupy():
        return None
    try:
        dtype = element_dtype_named(tensor.dtype)
    except EncodeError:
        return None
    return None if dtype.kind in "bc" else GpuForms(number)


def _find_number(tensor: Any) -> int | None:
    """Return the device of a tensor that kernels can read in place; None for others."""
    if is_torch(tensor):
        if not tensor.is_cuda or str(tensor.layout) != "torch.strided" or hasattr(tensor, "to_local"):
            return None
        try:
            has_memory = bool(tensor.data_ptr()) or not tensor.numel()
        except RuntimeError:  # a subclass without memory
            return None
        return int(tensor.device.index) if has_memory and not tensor.is_neg() else None
    is_cupy = hasattr(tensor, "__cuda_array_interface__") and hasattr(tensor, "get")
    return int(tensor.device.id) if is_cupy else None


@cache
def _has_cupy() -> bool:
    """Return whether CuPy is installed, with a device."""
    try:
        devices.cupy_device()
    except DeviceError:
        return False
    return True
