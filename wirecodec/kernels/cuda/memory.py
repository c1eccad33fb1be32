"""Launching ``memory.cu``: zeros and copies as kernels. Arrays begin at a multiple of 4 bytes."""

from __future__ import annotations

from typing import Any

import numpy as np

from wirecodec.kernels.cuda.device import THREADS, Device, blocks_for

__all__ = ["clear", "copy"]

_EACH, _MOST = 16 * THREADS, 2048
"""Bytes of a block, and blocks from where on each does more."""


def clear(device: Device, array: Any) -> None:
    """All bytes 0."""
    blocks = blocks_for(array.nbytes, _EACH, _MOST)
    device.launch("memory", "zero", blocks, array, np.uint64(array.nbytes))


def copy(device: Device, source: Any, target: Any) -> None:
    """The bytes of an array into another one of as many."""
    blocks = blocks_for(source.nbytes, _EACH, _MOST)
    device.launch("memory", "copy", blocks, source, np.uint64(source.nbytes), target)
