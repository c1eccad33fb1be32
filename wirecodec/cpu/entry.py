"""Functions of the host that the public functions call; ``wirecodec.gpu.entry`` has the same names."""

from __future__ import annotations

from typing import Any

import numpy as np

from wirecodec.cpu.decode import add, tensors_of
from wirecodec.cpu.encode import encode, encode_many
from wirecodec.cpu.step import step

__all__ = ["add", "can_add", "encode", "encode_many", "step", "tensors_of"]


def can_add(target: Any) -> bool:
    """Tell whether values can be added to an array: float32 or float64, contiguous, writable."""
    if type(target) not in (np.ndarray, np.memmap) or target.dtype not in (np.float32, np.float64):
        return False
    return bool(target.flags.c_contiguous and target.flags.writeable)
