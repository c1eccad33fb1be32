"""Streams of draws (counter.cuh) as kernel arguments."""

from __future__ import annotations

from typing import Any

import numpy as np


def stream_words(stream: int) -> tuple[Any, Any]:
    """Return the arguments for a stream, a u64: its lower half and its upper half."""
    return np.uint32(stream & 0xFFFFFFFF), np.uint32(stream >> 32)
