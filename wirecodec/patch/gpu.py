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
from wirecodec.patch.bits import Bits, Changes, Elements, join_changes
from wirecodec.patch.digest import MASK, sum_touched
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

    def view(self, tensor: Any, bits: Bits) -> Bits | None:
        """Return the bits of a contiguous tensor; ``find_forms`` takes no lazy negatives."""
        is_contiguous = tensor.is_contiguous() if is_torch(tensor) else tensor.flags.c_contiguous
        return bits if is_contiguous else None

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

    def sum_arrays(self, parts: Sequence[Bits]) -> Array:
        """Add up the mixed words of each."""
        return np.array([self.sum_elements(part.bits) for part in parts], np.uint64)

    @contextmanager
    def join_summed(self, parts: Sequence[Bits]) -> Iterator[tuple[Any, Array]]:
        """Lend elements as one array, and their sums."""
        sums = self.sum_arrays(parts)
        with self.join([part.bits for part in parts]) as joined:
            yield joined, sums

    def add_changes(self, sums: Array, joined: Any, starts: Array, cuts: Array, changes: Elements) -> None:
        """Add changes of the sums, one part after another."""
        for i, (start, stop, a, b) in enumerate(_pair(starts, cuts)):
            if a == b:
                continue
            indices, values = changes[0][a:b] - np.uint32(start), changes[1][a:b]
            with devices.device_numbered(self.number) as device:
                own = device.put(indices), device.put(values)
                moved = digest.sum_change(device, joined[start:stop], *own)
            sums[i : i + 1] += np.uint64(moved & MASK)  # modulo 2^64

    def take_touched(
        self, parts: Sequence[Bits], starts: Array, cuts: Array, indices: Array
    ) -> tuple[Array, Array]:
        """Copy some elements to the host, and add them up there."""
        values = np.concatenate(
            [
                self.take(part.bits, indices[a:b] - np.uint32(start))
                for part, (start, _, a, b) in zip(parts, _pair(starts, cuts), strict=True)
            ]
        )
        return values, sum_touched(starts, cuts, indices, values)

    def find_changes(
        self, olds: Sequence[Bits], news: Sequence[Bits], *, digests: bool
    ) -> tuple[Changes, Array, Array]:
        """Find the elements that differ, in one reading of the tensors."""
        parts, cuts, sums = [], [0], []
        with devices.device_numbered(self.number) as device:
            for old, new in zip(olds, news, strict=True):
                pair = old.bits, new.bits
                indices, totals = digest.find_changes(device, *pair, digests=digests)
                own = (elements.gather(device, bits, indices) for bits in pair)
                parts.append([_fetch(device, x) for x in (indices, *own)])
                cuts.append(cuts[-1] + int(indices.size))
                sums.append(totals)
        return join_changes(parts), np.array(cuts), np.array(sums, np.uint64).T

    def take(self, bits: Any, indices: Array) -> Array:
        """Copy some elements to the host."""
        with devices.device_numbered(self.number) as device:
            return device.get(elements.gather(device, bits, device.put(indices)))

    def scatter(self, bits: Any, indices: Array, values: Array) -> None:
        """Replace the elements at (r,) u32 positions, on the caller's stream.

        It is torch's, unless the program has set one in CuPy.
        """
        with devices.device_numbered(self.number, follows_torch=True) as device:
            elements.replace(device, bits, device.put(indices), device.put(values))

    def exchange(
        self, parts: Sequence[Bits], indices: Sequence[Array], values: Sequence[Array], olds: Array
    ) -> None:
        """Replace some elements of each tensor."""
        memories = [part.bits for part in parts]
        before = [self.take(*each) for each in zip(memories, indices, strict=True)]
        np.concatenate(before, out=olds)
        done = 0
        try:
            for each in zip(memories, indices, values, strict=True):
                self.scatter(*each)
                done += 1
        except BaseException:
            for i in reversed(range(done)):
                self.scatter(memories[i], indices[i], before[i])
            raise

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
    ) -> Elements | None:
        """Decode positions, and copy the elements there to the host."""
        with devices.device_numbered(self.number) as device:
            indices, is_valid = positions.read(device, bits, scale, cuts, tables[0], words)
            if not is_valid:
                return None
            return _fetch(device, indices), _fetch(device, elements.gather(device, bits, indices))


def _pair(starts: Array, cuts: Array) -> list[tuple[int, int, int, int]]:
    """Return the first and the last element of each part, and its first and last change, ends exclusive."""
    a, b = starts.tolist(), cuts.tolist()
    return list(zip(a, a[1:], b, b[1:], strict=False))


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
