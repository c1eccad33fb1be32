"""The same launches on a real GPU, for the tests of the emulator.

Arrays are NumPy's in CUDA's managed memory. So tests and kernels read the same addresses, which tables of
addresses need.
"""

from __future__ import annotations

import ctypes
from pathlib import Path
from typing import Any

import numpy as np

from tests.gpu_emulated.emulator import GUARD, KERNELS, Emulator
from tests.inputs import Array
from wirecodec.kernels.cuda import build
from wirecodec.kernels.cuda.device import THREADS, cupy_device

__all__ = ["Mirror"]


class Mirror(Emulator):
    """Device that runs each launch on a GPU; without a GPU, it raises DeviceError when it is made."""

    def __init__(self) -> None:
        super().__init__()
        self._real = cupy_device()
        self._modules: dict[str, Any] = {}

    def allocate(self, nbytes: int) -> Array:
        """Allocate bytes that both processors reach."""
        memory = self._real.cupy.cuda.malloc_managed(nbytes)
        raw: Any = (ctypes.c_uint8 * nbytes).from_address(memory.ptr)
        raw.memory = memory  # which lives as long as the array
        return np.frombuffer(raw, np.uint8)

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
        passed = tuple(map(self._passed, arguments))
        self._modules[path.stem].get_function(kernel)((blocks,), (THREADS,), passed)
        cupy.cuda.get_current_stream().synchronize()
        self.check_guards(kernel)

    def _passed(self, argument: Any) -> Any:
        """Return an argument as the GPU receives it."""
        if argument is None:
            return np.uint64(0)
        if isinstance(argument, np.generic):
            return argument
        if argument.size == 0:  # CuPy passes a null pointer
            return np.uint64(0)
        address = int(argument.ctypes.data)
        assert any(self._holds(buffer, address) for buffer in self.buffers()), "not its array"
        return np.uint64(address)

    @staticmethod
    def _holds(buffer: Array, address: int) -> bool:
        first = int(buffer.ctypes.data)
        return first + GUARD <= address <= first + buffer.size - GUARD
