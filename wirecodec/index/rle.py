"""``rle``: the lengths of the bitmap's runs, absent and present by turns (formats/spec/index/rle.md)."""

from __future__ import annotations

from wirecodec.arrays import Array

__all__ = ["planned_bytes"]


def planned_bytes(indices: Array) -> int:
    """The length of the section of (r,) u32 ``indices``, r > 0, without writing it."""
    from wirecodec.kernels.cpu import rle

    return int(rle.planned(indices))
