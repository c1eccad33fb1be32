"""What the launching code needs of a device: memory, copies, launches. CuPy's is here; a test has another.

Everything happens in the order of the caller's current stream, and nothing waits but ``get``. Kernels get
arrays as pointers and numbers as NumPy scalars of exactly their parameters' types; all of them run in blocks
of ``THREADS``.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from typing import Any, Protocol

import numpy as np

from wirecodec.arrays import Array
from wirecodec.errors import DeviceError
from wirecodec.kernels.cuda import build

__all__ = ["THREADS", "CupyDevice", "Device", "blocks_for", "cupy_device", "device_of"]

THREADS = 256
"""Of every block of every kernel."""


class Device(Protocol):
    """Where kernels run. Arrays are flat, and lie in the device's own memory."""

    def empty(self, size: int, dtype: Any) -> Any:
        """A new array, not filled."""
        ...

    def clear(self, array: Any) -> None:
        """All bytes of an array 0."""
        ...

    def copy(self, source: Any, target: Any) -> None:
        """The bytes of an array into another one of as many."""
        ...

    def put(self, array: Array) -> Any:
        """A copy of a host's array."""
        ...

    def get(self, array: Any) -> Array:
        """A copy on the host; waits for what the stream did before."""
        ...

    def launch(self, source: str, kernel: str, blocks: int, *arguments: Any) -> None:
        """Start a kernel of a source; nothing where there are no blocks. None is a null pointer."""
        ...


def blocks_for(work: int, each: int, most: int = 2**31 - 1) -> int:
    """How many blocks do ``work`` where one does ``each``."""
    return min(-(-work // each), most)


class CupyDevice:
    """The current device of CuPy; made by ``cupy_device``.

    Attributes:
        cupy: the module.
        capability: 90 for compute capability 9.0.
    """

    def __init__(self, cupy: Any, number: int) -> None:
        self.cupy = cupy
        self.number = number
        self.capability = int(cupy.cuda.Device(number).compute_capability)

    def empty(self, size: int, dtype: Any) -> Any:
        """From CuPy's memory pool."""
        return self.cupy.empty(size, dtype)

    def clear(self, array: Any) -> None:
        """By the device's own memset, which a graph can capture."""
        if array.nbytes:
            array.data.memset_async(0, array.nbytes)

    def copy(self, source: Any, target: Any) -> None:
        """From device to device, in the stream's order."""
        if source.nbytes:
            target.data.copy_from_device_async(source.data, source.nbytes)

    def put(self, array: Array) -> Any:
        """Through pinned memory of CuPy's own, without waiting."""
        return self.cupy.asarray(array)

    def get(self, array: Any) -> Array:
        """Through pinned memory; waits for the current stream."""
        room = self.cupy.cuda.alloc_pinned_memory(max(array.nbytes, 1))
        there = np.frombuffer(room, array.dtype, array.size)
        if array.size:
            array.get(out=there)
        return there

    def launch(self, source: str, kernel: str, blocks: int, *arguments: Any) -> None:
        """On the current stream."""
        if blocks:
            passed = tuple(np.uint64(0) if each is None else each for each in arguments)
            _function(self.cupy, self.number, source, kernel)((blocks,), (THREADS,), passed)


@lru_cache(maxsize=256)
def _function(cupy: Any, number: int, source: str, kernel: str) -> Any:
    return _module(cupy, number, source).get_function(kernel)


@lru_cache(maxsize=64)
def _module(cupy: Any, number: int, source: str) -> Any:
    capability = int(cupy.cuda.Device(number).compute_capability)
    return cupy.RawModule(path=str(build.image(source, capability)))


def cupy_device() -> CupyDevice:
    """CuPy's current device.

    DeviceError, which names the extra to install or gives the driver's reason, where there is none.
    """
    try:
        import cupy
    except ImportError as error:
        raise DeviceError(
            "arrays on a GPU need CuPy: pip install 'wirecodec[cuda12]' or 'wirecodec[cuda13]', as the driver"
            f" is ({error})"
        ) from None
    try:
        number = int(cupy.cuda.runtime.getDevice())
        return _device(cupy, number)
    except cupy.cuda.runtime.CUDARuntimeError as error:
        raise DeviceError(f"no GPU can be used: {error}") from None


@contextmanager
def device_of(array: Any) -> Iterator[CupyDevice]:
    """Make the device of a CuPy array the current one."""
    cupy = cupy_device().cupy
    with cupy.cuda.Device(array.device.id):
        yield cupy_device()


@lru_cache(maxsize=16)
def _device(cupy: Any, number: int) -> CupyDevice:
    return CupyDevice(cupy, number)
