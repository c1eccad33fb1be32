"""LEB128 varints: writing."""

from __future__ import annotations

from collections.abc import Sequence


def write_varints(values: Sequence[int]) -> bytes:
    """Write each value in the fewest bytes that hold it."""
    out = bytearray()
    for value in values:
        rest = value
        while rest >= 0x80:
            out.append(rest & 0x7F | 0x80)
            rest >>= 7
        out.append(rest)
    return bytes(out)
