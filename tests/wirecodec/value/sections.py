"""A value codec by itself: what it writes of values, and what it reads from that."""

from __future__ import annotations

from typing import Any

import numpy as np

from wirecodec.limits import UNLIMITED

__all__ = ["encode_section", "round_trip"]


def encode_section(codec: Any, values: Any, stream: int = 0) -> Any:
    """(n,) u8: the section that a codec writes of values, with the draws of a stream."""
    return np.frombuffer(bytes(codec.encode(values, stream)), np.uint8)


def round_trip(codec: Any, values: Any, stream: int = 0) -> Any:
    """The values as they are read from their section."""
    return type(codec).decode(encode_section(codec, values, stream), values.size, values.dtype, UNLIMITED)
