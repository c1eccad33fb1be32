"""Memory that is given out anew."""

from __future__ import annotations

import numpy as np
import pytest

from tests.gpu_emulated.emulator import Emulator
from wirecodec.gpu.plan.workspace import Kernels, Workspace


def recorded(device: Emulator) -> Workspace:
    """Twice: what asks for more the second time gets it."""
    memory = Workspace(device)
    for size in (5, 9):
        memory.rewind()
        memory.empty(size, np.uint32)
        memory.put(np.array([7], np.uint64))
    memory.close()
    return memory


def test_the_same_memory(probed: Emulator) -> None:
    memory = recorded(probed)
    held = len(probed.rooms())
    memory.rewind()
    first, constant = memory.empty(9, np.uint32), memory.put(np.array([7], np.uint64))
    first[:], constant[:] = 1, 2
    memory.rewind()
    again = memory.empty(18, np.uint16)
    assert (again.view(np.uint32) == 1).all()
    assert memory.put(np.array([7], np.uint64)).tolist() == [7], "a constant is as it was"
    assert len(probed.rooms()) == held


def test_a_sequence_that_is_not_the_same(probed: Emulator) -> None:
    memory = recorded(probed)
    memory.rewind()
    with pytest.raises(RuntimeError, match="when it was recorded"):
        memory.empty(10, np.uint32)
    memory.rewind()
    memory.empty(1, np.uint8)
    with pytest.raises(RuntimeError, match="when it was recorded"):
        memory.put(np.array([8], np.uint64))
    memory.put(np.array([7], np.uint64))
    with pytest.raises(RuntimeError, match="when it was recorded"):
        memory.empty(1, np.uint8)


def test_nothing_waits(probed: Emulator) -> None:
    memory = recorded(probed)
    with pytest.raises(RuntimeError, match="cannot wait"):
        memory.get(probed.empty(1, np.uint8))


@pytest.mark.sampled
@pytest.mark.parametrize("size", [0, 1, 3, 4, 5, 4095, 4096, 4097, 70_001])
def test_zeros_and_copies_by_kernels(emulator: Emulator, size: int) -> None:
    device = Kernels(emulator)
    source, target = (
        device.put(np.random.default_rng(size).integers(256, size=size, dtype=np.uint8)),
        device.empty(size, np.uint8),
    )
    device.copy(source, target)
    assert target.tobytes() == source.tobytes()
    device.clear(target)
    assert not target.any()
    assert emulator.launched == ["copy", "zero"]
