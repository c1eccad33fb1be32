"""Launch ``memory.cu``: zero fills and copies as kernels. Arrays are aligned to 4 bytes."""

from __future__ import annotations

from typing import Any

import numpy as np

from wirecodec.kernels.cuda.device import THREADS, Device, blocks_for

__all__ = ["clear", "copy"]

_BYTES_PER_BLOCK, _MAX_BLOCKS = 16 * THREADS, 2048
"""Bytes per block; and the number of blocks above which each block does more."""


def clear(device: Device, array: Any) -> None:
    """Set all bytes to 0."""
    blocks = blocks_for(array.nbytes, _BYTES_PER_BLOCK, _MAX_BLOCKS)
    device.launch("memory", "zero", blocks, array, np.uint64(array.nbytes))


def copy(device: Device, source: Any, target: Any) -> None:
    """Copy the bytes of an array to another of the same size."""
    blocks = blocks_for(source.nbytes, _BYTES_PER_BLOCK, _MAX_BLOCKS)
    device.launch("memory", "copy", blocks, source, np.uint64(source.nbytes), target)
