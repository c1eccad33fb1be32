"""Sections of LEB128 varints, framed and surveyed: what ``delta`` and ``rle`` check alike."""

from __future__ import annotations

import numpy as np

from wirecodec.arrays import Bytes

__all__ = ["SLACK", "surveyed"]

SLACK = 7
"""Bytes that a writer needs behind the section."""


def surveyed(section: Bytes) -> tuple[Bytes, int, bool, bool]:
    """A section's own copy, framed for the kernels, and what it holds.

    Returns the copy, how many numbers end in it, whether the last one does, and whether one is over-long or
    takes more than 4 bytes.
    """
    from wirecodec.kernels.cpu.coding import varint

    framed = np.empty(varint.FRONT + section.size + varint.BACK, np.uint8)
    framed[: varint.FRONT] = 0
    framed[varint.FRONT : -varint.BACK] = section
    framed[-varint.BACK :] = 0x80
    count, wrong = varint.survey(framed, section.size)
    ended = section.size > 0 and framed[-varint.BACK - 1] < 0x80
    return framed, count, bool(ended), wrong
