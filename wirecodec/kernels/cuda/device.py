"""The device interface that launching code uses, and its implementation by CuPy. Tests have another.

All operations are ordered by the caller's current stream; only ``get`` waits. Kernels receive arrays as
pointers, and numbers as NumPy scalars of exactly the parameter's type. All blocks have ``THREADS`` threads.
"""

from __future__ import annotations

from array import array as packed
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from typing import Any, Protocol

import numpy as np

from wirecodec.arrays import Array
from wirecodec.errors import DeviceError
from wirecodec.kernels.cuda import build
from wirecodec.kernels.cuda.staging import SMALL, Staging
from wirecodec.kernels.cuda.streams import StreamOrder

THREADS = 256
"""Threads per block, of every kernel."""


class Device(Protocol):
    """Device on which kernels run. Arrays are flat and in its own memory."""

    def empty(self, size: int, dtype: Any) -> Any:
        """Allocate an array, not initialised."""
        ...

    def clear(self, array: Any) -> None:
        """Set all bytes of an array to 0."""
        ...

    def copy(self, source: Any, target: Any) -> None:
        """Copy the bytes of an array to another of the same size."""
        ...

    def put(self, array: Array) -> Any:
        """Copy an array of the host to the device."""
        ...

    def write(self, array: Array, target: Any) -> None:
        """Copy an array of the host to one of the same size on the device; it may be changed afterwards."""
        ...

    def get(self, array: Any) -> Array:
        """Copy an array to the host; waits for the stream."""
        ...

    def address(self, array: Any) -> int:
        """Return the address of an array, for tables that kernels read."""
        ...

    def launch(self, source: str, kernel: str, blocks: int, *arguments: Any) -> None:
        """Launch a kernel of a source; do nothing if ``blocks`` is 0. None is a null pointer."""
        ...


def blocks_for(work: int, per_block: int, max_blocks: int = 2**31 - 1) -> int:
    """Return the number of blocks for ``work`` items at ``per_block`` each, at most ``max_blocks``."""
    return min(-(-work // per_block), max_blocks)


class CupyDevice:
    """CuPy's current device, made by ``cupy_device``.

    Attributes:
        cupy: the module.
        number: of the device.
        capability: 90 for compute capability 9.0.
        streams: order between streams.
    """

    def __init__(self, cupy: Any, number: int) -> None:
        self.cupy = cupy
        self.number = number
        self.capability = int(cupy.cuda.Device(number).compute_capability)
        self.streams = StreamOrder(cupy, number)
        self._staging = Staging(cupy)

    def empty(self, size: int, dtype: Any) -> Any:
        """Allocate from CuPy's memory pool."""
        return self.cupy.empty(size, dtype)

    def clear(self, array: Any) -> None:
        """Set all bytes to 0 by the device's own memset, in the stream's order."""
        if array.nbytes:
            array.data.memset_async(0, array.nbytes)

    def copy(self, source: Any, target: Any) -> None:
        """Copy from device to device, in the stream's order."""
        if source.nbytes:
            target.data.copy_from_device_async(source.data, source.nbytes)

    def put(self, array: Array) -> Any:
        """Copy without waiting."""
        made = self.cupy.empty(array.shape, array.dtype)
        self.write(array, made)
        return made

    def write(self, array: Array, target: Any) -> None:
        """Copy without waiting; more than 64 KiB through pinned memory."""
        given = np.ascontiguousarray(array)
        if given.nbytes > SMALL:
            self._staging.send(given, target)
        elif given.nbytes:
            target.data.copy_from_host_async(given.ctypes.data, given.nbytes)

    def get(self, array: Any) -> Array:
        """Copy to the host, more than 64 KiB to pinned memory; waits for the current stream."""
        if array.nbytes <= SMALL:
            host = np.empty(array.size, array.dtype)
        else:
            host = np.frombuffer(self._staging.allocate(array.nbytes), array.dtype, array.size)
        if array.size:
            array.get(out=host)
        return host

    def address(self, array: Any) -> int:
        """Return the address of a CuPy array."""
        return int(array.data.ptr)

    def launch(self, source: str, kernel: str, blocks: int, *arguments: Any) -> None:
        """Launch on the current stream.

        The arguments are packed here, because CuPy's kernels take ten times as long to do so.
        """
        if not blocks:
            return
        words = packed("Q", [_word(each) for each in arguments])
        first, count = words.buffer_info()
        places = packed("Q", range(first, first + 8 * count, 8))
        cuda = self.cupy.cuda
        cuda.driver.launchKernel(
            _function(self.cupy, self.number, source, kernel).ptr,
            *(blocks, 1, 1),
            *(THREADS, 1, 1),
            0,
            cuda.get_current_stream().ptr,
            places.buffer_info()[0],
            0,
        )


def _word(argument: Any) -> int:
    """Return the word that a kernel's argument begins with."""
    if argument is None:
        return 0
    if isinstance(argument, np.generic):
        return int(argument) & 2**64 - 1
    return int(argument.data.ptr)


@lru_cache(maxsize=256)
def _function(cupy: Any, number: int, source: str, kernel: str) -> Any:
    return _module(cupy, number, source).get_function(kernel).kernel


@lru_cache(maxsize=64)
def _module(cupy: Any, number: int, source: str) -> Any:
    capability = int(cupy.cuda.Device(number).compute_capability)
    return cupy.RawModule(path=str(build.build_image(source, capability)))


def cupy_device() -> CupyDevice:
    """Return CuPy's current device.

    Raises DeviceError without a device; it names the package to install, or the driver's reason.
    """
    try:
        import cupy
    except ImportError as error:
        raise DeviceError(
            "arrays on a GPU need CuPy: pip install cupy-cuda12x, or cupy-cuda13x, to match your CUDA driver"
            f" ({error})"
        ) from None
    try:
        number = int(cupy.cuda.runtime.getDevice())
        return _device(cupy, number)
    except cupy.cuda.runtime.CUDARuntimeError as error:
        raise DeviceError(f"no GPU can be used: {error}") from None


@contextmanager
def device_of(array: Any, *, follows_torch: bool = False) -> Iterator[CupyDevice]:
    """Make the device of a CuPy array the current one, and the caller's stream (``StreamOrder.current``)."""
    with device_numbered(int(array.device.id), follows_torch=follows_torch) as device:
        yield device


@contextmanager
def device_numbered(number: int, *, follows_torch: bool = False) -> Iterator[CupyDevice]:
    """Do the same for a device by CUDA's number."""
    cupy = cupy_device().cupy
    with cupy.cuda.Device(number):
        device = cupy_device()
        with device.streams.current(follows_torch=follows_torch):
            yield device


@lru_cache(maxsize=16)
def _device(cupy: Any, number: int) -> CupyDevice:
    return CupyDevice(cupy, number)
