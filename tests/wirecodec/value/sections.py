"""Encode and decode with a value codec alone, without a container."""

from __future__ import annotations

from typing import Any

import numpy as np

from wirecodec.limits import UNLIMITED

__all__ = ["encode_section", "round_trip"]


def encode_section(codec: Any, values: Any, stream: int = 0) -> Any:
    """Encode values with a codec and return its section, (n,) uint8."""
    return np.frombuffer(bytes(codec.encode(values, stream)), np.uint8)


def round_trip(codec: Any, values: Any, stream: int = 0) -> Any:
    """Encode and decode values with a codec."""
    return type(codec).decode(encode_section(codec, values, stream), values.size, values.dtype, UNLIMITED)
