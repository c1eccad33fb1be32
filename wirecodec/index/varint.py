"""Sections of LEB128 varints: the copy and the checks that ``delta`` and ``rle`` share."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from wirecodec.arrays import Bytes

STORE_MARGIN = 7
"""Bytes that a writer's last store may reach beyond the section."""


class Survey(NamedTuple):
    """Private copy of a section of varints, and the result of its checks.

    Attributes:
        framed: (FRONT + n + BACK,) u8, the copy, framed for ``varint.read``.
        n_numbers: how many numbers end in it.
        complete: whether the last byte ends a number.
        malformed: whether a number is over-long or takes more than 4 bytes.
    """

    framed: Bytes
    n_numbers: int
    complete: bool
    malformed: bool


def survey_section(section: Bytes) -> Survey:
    """Copy a section of varints, count its numbers and check their form.

    Args:
        section: (n,) u8, which another thread may change.
    """
    from wirecodec.kernels.cpu.coding import varint

    framed = np.empty(varint.FRONT + section.size + varint.BACK, np.uint8)
    framed[: varint.FRONT] = 0
    framed[varint.FRONT : -varint.BACK] = section
    framed[-varint.BACK :] = 0x80
    count, malformed = varint.survey(framed, section.size)
    complete = section.size > 0 and framed[-varint.BACK - 1] < 0x80
    return Survey(framed, count, bool(complete), malformed)
