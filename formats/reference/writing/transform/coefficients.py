"""Transform records, and tensors given as coefficients (SPEC section 3.5)."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass


def write_lengths(lengths: Sequence[tuple[int, int]]) -> bytes:
    """Return the body of a transform record from the (key, n) of its rows."""
    return b"".join(struct.pack("<IIQ", key, 0, n) for key, n in lengths)


@dataclass
class Spectrum:
    """Tensor given as coefficients: their indices, and the bytes of their components."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    indices: Sequence[int]
    values: bytes
    domain: int
