"""TODO writing.transform.coefficients"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass


def write_lengths(lengths: Sequence[tuple[int, int]]) -> bytes:
    """The body of a transform record from the (key, n) of its rows."""
    return b"".join(struct.pack("<IIQ", key, 0, n) for key, n in lengths)


@dataclass
class Spectrum:
    """A tensor as its coefficients, to be written: their indices, and the bytes of their numbers."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    indices: Sequence[int]
    values: bytes
    domain: int
