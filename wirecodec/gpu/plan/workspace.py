"""Devices on which a fixed sequence of launches can run again and again, so that a CUDA graph can capture it.

``Kernels`` is a device that performs each operation in the stream by a kernel. ``Workspace`` also allocates
its memory once and hands out the same memory in each run.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from wirecodec.arrays import Array
from wirecodec.kernels.cuda import memory
from wirecodec.kernels.cuda.device import Device

__all__ = ["Kernels", "Workspace"]


class Kernels:
    """``Device`` that clears and copies by kernels; its arrays are aligned to 4 bytes."""

    def __init__(self, device: Device) -> None:
        self._device = device

    def empty(self, size: int, dtype: Any) -> Any:
        """Allocate an array as the device does."""
        return self._device.empty(size, dtype)

    def put(self, array: Array) -> Any:
        """Copy an array of the host as the device does."""
        return self._device.put(array)

    def get(self, array: Any) -> Array:
        """Copy an array to the host as the device does."""
        return self._device.get(array)

    def clear(self, array: Any) -> None:
        """Set all bytes to 0 by a kernel."""
        memory.clear(self._device, array)

    def copy(self, source: Any, target: Any) -> None:
        """Copy the bytes of an array to another of the same size by a kernel."""
        memory.copy(self._device, source, target)

    def launch(self, source: str, kernel: str, blocks: int, *arguments: Any) -> None:
        """Launch a kernel as the device does."""
        self._device.launch(source, kernel, blocks, *arguments)


class Workspace(Kernels):
    """``Kernels`` whose n-th array since ``rewind`` is always the same memory.

    It allocates memory until ``close``. After that, a sequence that needs more memory raises RuntimeError.
    ``get`` always raises, because a sequence that runs in a graph cannot wait.
    """

    def __init__(self, device: Device) -> None:
        super().__init__(device)
        self._buffers: list[Any] = []
        self._constants: dict[tuple[str, bytes], Any] = {}
        self._next = 0
        self._closed = False

    def rewind(self) -> None:
        """Start handing out the memory from the beginning."""
        self._next = 0

    def close(self) -> None:
        """Allocate no more memory from now on."""
        self._closed = True

    def empty(self, size: int, dtype: Any) -> Any:
        """Return the next array, not initialised."""
        nbytes = size * np.dtype(dtype).itemsize
        number, self._next = self._next, self._next + 1
        if number == len(self._buffers) or self._buffers[number].size < nbytes:
            self._check_open()
            self._buffers[number : number + 1] = [self._device.empty(nbytes, np.uint8)]
        return self._buffers[number][:nbytes].view(dtype)

    def put(self, array: Array) -> Any:
        """Return the next array, filled with a constant that is kept on the device."""
        key = array.dtype.str, array.tobytes()
        if key not in self._constants:
            self._check_open()
            self._constants[key] = self._device.put(array)
        result = self.empty(array.size, array.dtype)
        self.copy(self._constants[key], result)
        return result

    def _check_open(self) -> None:
        """Raise RuntimeError if the workspace is closed."""
        if self._closed:
            raise RuntimeError("the sequence needs more memory than in its first run")

    def get(self, array: Any) -> Array:
        """Raise RuntimeError: a sequence that runs in a graph cannot wait."""
        raise RuntimeError("a sequence that runs in a graph cannot wait")
