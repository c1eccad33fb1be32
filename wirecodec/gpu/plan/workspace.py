"""What a sequence of launches that is made again and again stands on.

``Kernels`` is a device on which everything that happens in the stream is a kernel; ``Workspace`` one whose
memory is allocated once, and given out anew.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from wirecodec.arrays import Array
from wirecodec.kernels.cuda import memory
from wirecodec.kernels.cuda.device import Device

__all__ = ["Kernels", "Workspace"]


class Kernels:
    """A ``Device`` that clears and copies by kernels; arrays begin at a multiple of 4 bytes."""

    def __init__(self, device: Device) -> None:
        self._device = device

    def empty(self, size: int, dtype: Any) -> Any:
        """The device's."""
        return self._device.empty(size, dtype)

    def put(self, array: Array) -> Any:
        """The device's."""
        return self._device.put(array)

    def get(self, array: Any) -> Array:
        """The device's."""
        return self._device.get(array)

    def clear(self, array: Any) -> None:
        """All bytes 0."""
        memory.clear(self._device, array)

    def copy(self, source: Any, target: Any) -> None:
        """The bytes of an array into another one of as many."""
        memory.copy(self._device, source, target)

    def launch(self, source: str, kernel: str, blocks: int, *arguments: Any) -> None:
        """The device's."""
        self._device.launch(source, kernel, blocks, *arguments)


class Workspace(Kernels):
    """One whose n-th array since ``rewind`` is always the same memory.

    Until ``close`` it allocates what is asked for; from then on a sequence that asks for more than before is
    an error, as is waiting: ``get`` is no part of what can be launched again unseen.
    """

    def __init__(self, device: Device) -> None:
        super().__init__(device)
        self._rooms: list[Any] = []
        self._constants: dict[tuple[str, bytes], Any] = {}
        self._next = 0
        self._closed = False

    def rewind(self) -> None:
        """What was given out so far is given out again."""
        self._next = 0

    def close(self) -> None:
        """No memory is allocated any more."""
        self._closed = True

    def empty(self, size: int, dtype: Any) -> Any:
        """The next array, which may hold anything."""
        nbytes = size * np.dtype(dtype).itemsize
        at, self._next = self._next, self._next + 1
        if at == len(self._rooms) or self._rooms[at].size < nbytes:
            self._must_be_open()
            self._rooms[at : at + 1] = [self._device.empty(nbytes, np.uint8)]
        return self._rooms[at][:nbytes].view(dtype)

    def put(self, array: Array) -> Any:
        """The next array, with a copy of a constant that is kept on the device."""
        key = array.dtype.str, array.tobytes()
        if key not in self._constants:
            self._must_be_open()
            self._constants[key] = self._device.put(array)
        made = self.empty(array.size, array.dtype)
        self.copy(self._constants[key], made)
        return made

    def _must_be_open(self) -> None:
        if self._closed:
            raise RuntimeError("a sequence asked for memory that it did not ask for when it was recorded")

    def get(self, array: Any) -> Array:
        """RuntimeError."""
        raise RuntimeError("a sequence that is launched again unseen cannot wait")
