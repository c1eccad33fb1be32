"""A value codec by itself: what it writes of values, and what it reads from that."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import wirecodec as wc
from wirecodec.limits import UNLIMITED

__all__ = ["decoded", "refusal", "section_of", "sent"]


def section_of(codec: Any, values: Any, stream: int = 0) -> Any:
    """(n,) u8: the section that a codec writes of values, with the draws of a stream."""
    return np.frombuffer(bytes(codec.encode(values, stream)), np.uint8)


def sent(codec: Any, values: Any, stream: int = 0) -> Any:
    """The values as they are read from their section."""
    return type(codec).decode(section_of(codec, values, stream), values.size, values.dtype, UNLIMITED)


def decoded(cls: Any, section: bytes, r: int, dtype: Any = np.float32) -> Any:
    return cls.decode(np.frombuffer(section, np.uint8), r, np.dtype(dtype), UNLIMITED)


def refusal(cls: Any, section: bytes, r: int) -> tuple[str, str]:
    with pytest.raises(wc.WireError) as caught:
        decoded(cls, section, r)
    return type(caught.value).__name__, caught.value.code
