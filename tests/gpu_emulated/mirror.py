"""The same launches on a real GPU, for the tests of the emulator.

Arrays stay NumPy's, so that tests can read them. Each launch copies its arrays to the GPU, guards included,
and back.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from tests.gpu_emulated.emulator import GUARD, KERNELS, Emulator
from tests.inputs import Array
from wirecodec.kernels.cuda import build
from wirecodec.kernels.cuda.device import THREADS, cupy_device

__all__ = ["Mirror"]


class Mirror(Emulator):
    """Device that runs each launch on a GPU. Raises DeviceError if copies is none."""

    def __init__(self) -> None:
        super().__init__()
        self._real = cupy_device()
        self._modules: dict[str, Any] = {}

    def run(self, path: Path, kernel: str, blocks: int, *arguments: Any) -> None:
        """Run a kernel on the GPU and wait for it."""
        assert path.parent == KERNELS, "a test's own source runs in the emulator alone"
        self.launched.append(kernel)
        if blocks == 0:
            return
        cupy = self._real.cupy
        if path.stem not in self._modules:
            image = build.build_image(path.stem, self._real.capability)
            self._modules[path.stem] = cupy.RawModule(path=str(image))
        copies: dict[int, tuple[Array, Any]] = {}
        passed = tuple(self._passed(each, copies) for each in arguments)
        self._modules[path.stem].get_function(kernel)((blocks,), (THREADS,), passed)
        cupy.cuda.get_current_stream().synchronize()
        for buffer, copy in copies.values():
            copy.get(out=buffer)
        self.check_guards(kernel)

    def _passed(self, argument: Any, copies: dict[int, tuple[Array, Any]]) -> Any:
        """Return an argument as the GPU receives it; record the buffers that were copied."""
        if argument is None:
            return np.uint64(0)
        if isinstance(argument, np.generic):
            return argument
        if argument.size == 0:  # CuPy passes a null pointer, and NumPy's address is not inside the buffer
            return np.uint64(0)
        address = int(argument.ctypes.data)
        buffer = self._buffer_of(address)
        first = int(buffer.ctypes.data)
        if first not in copies:
            copies[first] = buffer, self._real.cupy.asarray(buffer)
        return np.uint64(int(copies[first][1].data.ptr) + address - first)

    def _buffer_of(self, address: int) -> Array:
        for buffer in self.buffers():
            first = int(buffer.ctypes.data)
            if first + GUARD <= address <= first + buffer.size - GUARD:
                return buffer
        raise AssertionError("an array that the device did not make")
