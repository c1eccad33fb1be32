"""Value codec 10, dexpfit: writing of simple sections (spec/value/dexpfit.md)."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import ClassVar

from formats.reference.floats import Format, to_float, unpack_elements
from formats.reference.value.dexpfit import BACKWARDS, MAX_FACTOR
from formats.reference.writing.value.curves import write_headers


@dataclass(frozen=True)
class DExpFit:
    """Value codec 10: one curve with these rates, or the values themselves if ``raw`` is set.

    Both factors are half of the first value or, if ``backwards`` is set, of the last.
    """

    id: ClassVar[int] = 10
    scheme: ClassVar[str] = "dexpfit"
    ordered: ClassVar[bool] = True
    b: float = -3.0
    d: float = -0.5
    backwards: bool = False
    raw: bool = False

    def write_section(self, values: bytes, dtype: Format, stream: int) -> bytes:
        """Write a curve through the first or the last value."""
        bits = unpack_elements(values, dtype.itemsize)
        if self.raw:
            return write_headers([]) + values
        half = 0.5 * to_float(bits[-1 if self.backwards else 0], dtype)
        half = max(-MAX_FACTOR, min(half, MAX_FACTOR))
        head = len(bits) - 1 | (BACKWARDS if self.backwards else 0)
        return write_headers([head]) + struct.pack("<4d", half, self.b, half, self.d)
