"""A stand-in for CuPy with which the door can be tried: its arrays are NumPy's that say they lie on a GPU.

It shows what the door asks of CuPy, and no more; that CuPy has it, only a GPU can show.
"""

from __future__ import annotations

import sys
from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from tests.cuda.recorder import Recorder
from tests.inputs import Array
from wirecodec.gpu import door, plans


class OnGPU(np.ndarray[Any, Any]):
    """An array that NumPy is not to touch, though it could."""

    device: Any = SimpleNamespace(id=0)

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        return {"shape": self.shape, "typestr": self.dtype.str, "version": 3}


class StandInDevice(Recorder):
    """The emulator, its arrays marked, and the module that they belong to; it has one stream."""

    def __init__(self, *settings: int) -> None:
        super().__init__(*settings)
        self.cupy = SimpleNamespace(
            ndarray=OnGPU,
            asarray=marked,
            ascontiguousarray=np.ascontiguousarray,
            cuda=SimpleNamespace(
                Device=lambda number: nullcontext(), Stream=lambda non_blocking: nullcontext(self)
            ),
            zeros=lambda *given: marked(np.zeros(*given)),
            arange=lambda *given, **named: marked(np.arange(*given, **named)),
        )
        self.cupy.ascontiguousarray = lambda x: marked(np.ascontiguousarray(x))

    def empty(self, size: int, dtype: Any) -> Array:
        """Marked."""
        return marked(super().empty(size, dtype))

    def get(self, array: Array) -> Array:
        """No longer marked."""
        return np.array(super().get(array).view(np.ndarray))


def marked(x: Array) -> Array:
    """An array as if it lay on a GPU."""
    return x.view(OnGPU)


@pytest.fixture
def standin(monkeypatch: pytest.MonkeyPatch) -> StandInDevice:
    """The door, leading to the stand-in; ``import cupy`` finds it, too."""
    device = StandInDevice(3, 3)
    for module in (door, plans):
        monkeypatch.setattr(module, "cupy_device", lambda: device)
    monkeypatch.setitem(sys.modules, "cupy", device.cupy)
    return device
