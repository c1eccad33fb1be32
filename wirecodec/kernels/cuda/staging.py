"""Pinned memory on the host, from which a device copies while the host goes on.

Its blocks have few sizes, because CuPy's pool gives a block only to requests of exactly its size, and keeps
it for ever: containers have another size in each step, and an allocation takes longer than a step.
"""

from __future__ import annotations

import threading
from typing import Any

import numpy as np

from wirecodec.arrays import Array

SMALL = 2**16
"""Bytes that the driver copies at once, also from memory that is not pinned."""


class Staging:
    """Pinned blocks of one device.

    Args:
        cupy: the module.
    """

    def __init__(self, cupy: Any) -> None:
        self._cupy = cupy
        self._lock = threading.Lock()
        self._sent: list[tuple[Any, Any]] = []  # blocks, with an event after their copy

    def allocate(self, nbytes: int) -> Any:
        """Return a block of at least ``nbytes``; CuPy's pool takes it back when nobody refers to it."""
        return self._cupy.cuda.alloc_pinned_memory(1 << max(nbytes - 1, SMALL).bit_length())

    def send(self, array: Array, target: Any) -> None:
        """Copy an array to the device in the order of the current stream."""
        block = self.allocate(array.nbytes)
        np.frombuffer(block, np.uint8, array.nbytes)[:] = array.reshape(-1).view(np.uint8)
        target.data.copy_from_host_async(block.ptr, array.nbytes)
        done = self._cupy.cuda.get_current_stream().record()
        with self._lock:
            self._sent = [each for each in self._sent if not each[1].done]
            self._sent.append((block, done))
