"""Encode and decode with a value codec alone, without a container."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import wirecodec as wc
from wirecodec.limits import UNLIMITED

__all__ = ["decode_section", "encode_section", "error_of", "round_trip"]


def encode_section(codec: Any, values: Any, stream: int = 0) -> Any:
    """Encode values with a codec and return its section, (n,) uint8."""
    return np.frombuffer(bytes(codec.encode(values, stream)), np.uint8)


def round_trip(codec: Any, values: Any, stream: int = 0) -> Any:
    """Encode and decode values with a codec."""
    return type(codec).decode(encode_section(codec, values, stream), values.size, values.dtype, UNLIMITED)


def decode_section(cls: Any, section: bytes, r: int, dtype: Any = np.float32) -> Any:
    """Decode r values of a type from the section of a codec."""
    return cls.decode(np.frombuffer(section, np.uint8), r, np.dtype(dtype), UNLIMITED)


def error_of(cls: Any, section: bytes, r: int) -> tuple[str, str]:
    """Return class and code of the WireError that decoding raises."""
    with pytest.raises(wc.WireError) as caught:
        decode_section(cls, section, r)
    return type(caught.value).__name__, caught.value.code
