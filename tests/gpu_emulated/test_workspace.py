"""Memory that a workspace hands out again."""

from __future__ import annotations

import numpy as np
import pytest

from tests.gpu_emulated.emulator import Emulator
from wirecodec.gpu.plan.workspace import Kernels, Workspace


def closed_workspace(device: Emulator) -> Workspace:
    """Run a sequence twice, with more memory in the second run, and close the workspace."""
    memory = Workspace(device)
    for size in (5, 9):
        memory.rewind()
        memory.empty(size, np.uint32)
        memory.put(np.array([7], np.uint64))
    memory.close()
    return memory


def test_memory_is_reused(probed: Emulator) -> None:
    memory = closed_workspace(probed)
    before = len(probed.buffers())
    memory.rewind()
    first, constant = memory.empty(9, np.uint32), memory.put(np.array([7], np.uint64))
    first[:], constant[:] = 1, 2
    memory.rewind()
    again = memory.empty(18, np.uint16)
    assert (again.view(np.uint32) == 1).all()
    assert memory.put(np.array([7], np.uint64)).tolist() == [7], "a constant is as it was"
    assert len(probed.buffers()) == before


def test_a_longer_sequence_raises(probed: Emulator) -> None:
    memory = closed_workspace(probed)
    memory.rewind()
    with pytest.raises(RuntimeError, match="more memory than in its first run"):
        memory.empty(10, np.uint32)
    memory.rewind()
    memory.empty(1, np.uint8)
    with pytest.raises(RuntimeError, match="more memory than in its first run"):
        memory.put(np.array([8], np.uint64))
    memory.put(np.array([7], np.uint64))
    with pytest.raises(RuntimeError, match="more memory than in its first run"):
        memory.empty(1, np.uint8)


def test_get_raises(probed: Emulator) -> None:
    memory = closed_workspace(probed)
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
