"""A stream of draws (counter.cuh) as kernels take it."""

from __future__ import annotations

from typing import Any

import numpy as np

__all__ = ["stream_words"]


def stream_words(stream: Any) -> tuple[Any, Any, Any]:
    """The arguments for a u64, its halves, or for (1,) u64 on the device, where it lies."""
    if isinstance(stream, int):
        return np.uint32(stream & 0xFFFFFFFF), np.uint32(stream >> 32), None
    return np.uint32(0), np.uint32(0), stream
