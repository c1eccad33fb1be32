"""What a CupyDevice passes to CuPy, with a module that only records it."""

from __future__ import annotations

import ctypes
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from tests.inputs import Array
from wirecodec.kernels.cuda import device as device_module
from wirecodec.kernels.cuda.device import CupyDevice
from wirecodec.kernels.cuda.staging import SMALL


class Recorded:
    """A module like CuPy, without a GPU.

    Attributes:
        launched: blocks, threads and argument words of each launch.
        pinned: bytes of each pinned allocation.
        copied: bytes of each copy to the device.
        is_done: whether the device has come so far.
    """

    def __init__(self) -> None:
        self.launched: list[tuple[int, int, list[int]]] = []
        self.pinned: list[int] = []
        self.copied: list[bytes] = []
        self.is_done = False
        self.cuda = SimpleNamespace(
            Device=lambda number: SimpleNamespace(compute_capability="90"),
            driver=SimpleNamespace(launchKernel=self._launch),
            get_current_stream=lambda: SimpleNamespace(ptr=77, record=lambda: self),
            alloc_pinned_memory=self._allocate,
        )

    @property
    def done(self) -> bool:
        """What an event answers."""
        return self.is_done

    def empty(self, shape: Any, dtype: Any) -> Any:
        """Return an array at address 4096."""
        return SimpleNamespace(data=SimpleNamespace(ptr=4096, copy_from_host_async=self._copy))

    def _copy(self, address: int, nbytes: int) -> None:
        self.copied.append(ctypes.string_at(address, nbytes))

    def _allocate(self, nbytes: int) -> Any:
        self.pinned.append(nbytes)
        return Block(nbytes)

    def _launch(self, function: int, *given: int) -> None:
        assert (function, given[6:8], given[9]) == (123, (0, 77), 0)
        places = (ctypes.c_uint64 * 5).from_address(given[8])
        words = [ctypes.c_uint64.from_address(place).value for place in places]
        self.launched.append((given[0], given[3], words))


class Block(bytearray):
    """Pinned memory."""

    @property
    def ptr(self) -> int:
        """Its address."""
        return ctypes.addressof(ctypes.c_char.from_buffer(self))


@pytest.fixture
def recorded() -> Recorded:
    return Recorded()


def test_arguments_are_words_in_their_order(recorded: Recorded, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(device_module, "_function", lambda *_: SimpleNamespace(ptr=123))
    device = CupyDevice(recorded, 0)
    x = device.empty(3, np.float32)
    device.launch("source", "kernel", 0, x, None, np.uint32(1), np.int32(-1), np.uint64(2**64 - 1))
    assert not recorded.launched
    device.launch("source", "kernel", 9, x, None, np.uint32(7), np.int32(-1), np.uint64(2**64 - 1))
    assert recorded.launched == [(9, 256, [4096, 0, 7, 2**64 - 1, 2**64 - 1])]


def draw(nbytes: int) -> Array:
    return np.random.default_rng(nbytes).integers(0, 256, nbytes, np.uint8)


def test_pinned_blocks_have_few_sizes_and_outlive_their_copies(recorded: Recorded) -> None:
    device = CupyDevice(recorded, 0)
    sizes = [1, SMALL, SMALL + 1, SMALL + 50, 3 * SMALL, 0]
    given = [draw(size) for size in sizes]
    for x in given:
        device.put(x)
    assert recorded.copied == [x.tobytes() for x in given if x.size]
    assert recorded.pinned == [2 * SMALL, 2 * SMALL, 4 * SMALL]
    assert len(device._staging._sent) == 3, "a block was let go before its copy was done"
    recorded.is_done = True
    device.put(draw(5 * SMALL))
    assert len(device._staging._sent) == 1


def test_a_strided_array_is_sent_in_its_order(recorded: Recorded) -> None:
    x = np.arange(12, dtype=np.uint32).reshape(3, 4).T
    CupyDevice(recorded, 0).put(x)
    assert recorded.copied == [x.tobytes()]
