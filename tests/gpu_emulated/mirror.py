"""The emulator's other half: the same launches on a real GPU, for the same tests.

Arrays stay NumPy's, so that a test may look at them; each launch copies what it is given to the GPU, guards
included, and back again.
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
    """Raises DeviceError where there is no GPU."""

    def __init__(self) -> None:
        super().__init__()
        self._real = cupy_device()
        self._modules: dict[str, Any] = {}

    def run(self, path: Path, kernel: str, blocks: int, *arguments: Any) -> None:
        """On the GPU; waits for it."""
        assert path.parent == KERNELS, "a test's own source runs in the emulator alone"
        self.launched.append(kernel)
        if blocks == 0:
            return
        cupy = self._real.cupy
        if path.stem not in self._modules:
            image = build.build_image(path.stem, self._real.capability)
            self._modules[path.stem] = cupy.RawModule(path=str(image))
        there: dict[int, tuple[Array, Any]] = {}
        passed = tuple(self._passed(each, there) for each in arguments)
        self._modules[path.stem].get_function(kernel)((blocks,), (THREADS,), passed)
        cupy.cuda.get_current_stream().synchronize()
        for room, copy in there.values():
            copy.get(out=room)
        self.check_guards(kernel)

    def _passed(self, argument: Any, there: dict[int, tuple[Array, Any]]) -> Any:
        """An argument as the GPU sees it; rooms that were copied are noted."""
        if argument is None:
            return np.uint64(0)
        if isinstance(argument, np.generic):
            return argument
        address = int(argument.ctypes.data)
        room = self._room_of(address)
        first = int(room.ctypes.data)
        if first not in there:
            there[first] = room, self._real.cupy.asarray(room)
        return np.uint64(int(there[first][1].data.ptr) + address - first)

    def _room_of(self, address: int) -> Array:
        for room in self.rooms():
            first = int(room.ctypes.data)
            if first + GUARD <= address <= first + room.size - GUARD:
                return room
        raise AssertionError("an array that the device did not make")
