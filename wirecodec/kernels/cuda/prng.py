"""Streams of draws (counter.cuh) as kernel arguments."""

from __future__ import annotations

from typing import Any

import numpy as np

__all__ = ["stream_words"]


def stream_words(stream: Any) -> tuple[Any, Any, Any]:
    """Return the arguments for a stream: the halves of a u64, or a pointer to (1,) u64 on the device."""
    if isinstance(stream, int):
        return np.uint32(stream & 0xFFFFFFFF), np.uint32(stream >> 32), None
    return np.uint32(0), np.uint32(0), stream
