"""Budgets of small tensors, and bytes per step, on the device: the bytes of the host."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import wirecodec as wc
from tests.gpu_emulated.compressor_pair import make_pair, step_both
from tests.gpu_emulated.emulator import Emulator
from tests.gpu_emulated.standin import StandInDevice, standin
from tests.inputs import Array
from wirecodec.arrays import bits_of
from wirecodec.gpu import encode as gpu
from wirecodec.tensors import DeviceFlat

__all__ = ["standin"]

SCHEME = "budget(0.25) | rice | error-bounded"


def tensors(turn: int) -> dict[str, Array]:
    """Return small tensors beside a large one; one is zero in a step, and one has no elements."""
    rng = np.random.default_rng(turn)
    shapes = {"bias": (32,), "empty": (0,), "one": (), "scale": (300,), "weight": (70, 80)}
    found = {name: rng.laplace(size=shape).astype(np.float32) for name, shape in shapes.items()}
    found["scale"] *= turn != 1
    return found


@pytest.mark.filterwarnings("ignore:.*Give small tensors")
@pytest.mark.parametrize("scope", ["tensor", "group"])
@pytest.mark.parametrize("limit", [None, 400, 460, 600, 3000, 60_000])
def test_steps(standin: StandInDevice, scope: Any, limit: int | None) -> None:
    there, here = make_pair(SCHEME, scope=scope, bytes_per_step=limit)
    for turn in range(3):
        blob = step_both(there, here, tensors(turn)).blob
        assert limit is None or blob.nbytes <= limit


@pytest.mark.filterwarnings("ignore:.*Give small tensors")
@pytest.mark.parametrize("size", [1, 32, 33, 700, 2080, 2900])
def test_encoding(size: int) -> None:
    x = np.random.default_rng(size).laplace(size=size).astype(np.float32)
    device = Emulator()
    flat = DeviceFlat(device.put(bits_of(x)), x.dtype, x.shape)
    blob = device.get(gpu.encode(device, flat, wc.Scheme.parse(SCHEME), 0, b""))
    assert blob.tobytes() == wc.encode(x, SCHEME).tobytes()
    assert wc.decode(blob).nnz >= 1
