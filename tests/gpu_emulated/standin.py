"""A stand-in for CuPy: its arrays are NumPy arrays that claim to be on a GPU.

It has what ``gpu.entry`` uses of CuPy, and no more. Only a GPU can show that CuPy itself has the same.
"""

from __future__ import annotations

import sys
from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from tests.gpu_emulated.emulator import Emulator, why_not
from tests.inputs import Array
from wirecodec.gpu import entry, residual
from wirecodec.kernels.cuda import device as device_module
from wirecodec.patch import gpu as patch_gpu


class OnGPU(np.ndarray[Any, Any]):
    """Array that NumPy should not touch, although it could."""

    device: Any = SimpleNamespace(id=0)

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        return {"shape": self.shape, "typestr": self.dtype.str, "version": 3}

    def get(self, out: Array | None = None) -> Array:
        """Copy to the host, into memory there if it is given."""
        found = np.empty(self.shape, self.dtype) if out is None else out
        found[...] = self.view(np.ndarray)
        return found


class StandInDevice(Emulator):
    """Emulator whose arrays are marked, with the module that they belong to.

    Attributes:
        cupy: the module.
        number, streams: as of a CupyDevice.
        asked: the waits, "device" and "stream", in order.
        fetched, sent: bytes of each copy to the host, and from there, that the library made.
    """

    def __init__(self, *settings: int) -> None:
        super().__init__(*settings)
        self.cupy = SimpleNamespace(
            ndarray=OnGPU,
            asarray=marked,
            ascontiguousarray=lambda x: marked(np.ascontiguousarray(x)),
            cuda=SimpleNamespace(
                Device=lambda number: nullcontext(),
                get_current_stream=lambda: SimpleNamespace(synchronize=lambda: self._noted("stream")),
                runtime=SimpleNamespace(deviceSynchronize=lambda: self._noted("device")),
            ),
            empty=self.empty,
            zeros=lambda *given: marked(np.zeros(*given)),
            arange=lambda *given, **named: marked(np.arange(*given, **named)),
        )
        self.number = 0
        self.streams = SimpleNamespace(current=lambda **_: nullcontext())
        self.asked: list[str] = []
        self.fetched: list[int] = []
        self.sent: list[int] = []

    def _noted(self, what: str) -> None:
        self.asked.append(what)

    def empty(self, size: int, dtype: Any) -> Array:
        """Allocate a marked array."""
        return marked(super().empty(size, dtype))

    def put(self, array: Array) -> Array:
        """Copy to a marked array."""
        self.sent.append(array.nbytes)
        return super().put(array)

    def get(self, array: Array) -> Array:
        """Copy to an array that is not marked."""
        self.fetched.append(array.nbytes)
        return np.array(super().get(array).view(np.ndarray))


def marked(x: Array) -> Array:
    """View an array as if it were on a GPU."""
    return x.view(OnGPU)


@pytest.fixture
def standin(monkeypatch: pytest.MonkeyPatch) -> StandInDevice:
    """Replace CuPy by the stand-in; ``import cupy`` also finds it. Skip if the CPU cannot run kernels."""
    if (why := why_not()) is not None:
        pytest.skip(why)
    device = StandInDevice(3, 3)
    for module in (device_module, entry, residual):
        monkeypatch.setattr(module, "cupy_device", lambda: device)
    monkeypatch.setattr(patch_gpu, "_has_cupy", lambda: True)
    monkeypatch.setitem(sys.modules, "cupy", device.cupy)
    return device
