"""TODO writing.value.dexpfit"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import ClassVar

from formats.reference.floats import Format, elements, float_of
from formats.reference.value.dexpfit import BACKWARDS, MOST_FACTOR
from formats.reference.writing.value.curves import write_heads


@dataclass(frozen=True)
class DExpFit:
    """Value codec 10, as the writer takes it: one curve with these rates, or with ``raw`` the values.

    Its factors are halves of the first or, ``backwards``, the last value.
    """

    id: ClassVar[int] = 10
    scheme: ClassVar[str] = "dexpfit"
    ordered: ClassVar[bool] = True
    b: float = -3.0
    d: float = -0.5
    backwards: bool = False
    raw: bool = False

    def section(self, values: bytes, dtype: Format, stream: int) -> bytes:
        """Any curve."""
        bits = elements(values, dtype.itemsize)
        if self.raw:
            return write_heads([]) + values
        half = 0.5 * float_of(bits[-1 if self.backwards else 0], dtype)
        half = max(-MOST_FACTOR, min(half, MOST_FACTOR))
        head = len(bits) - 1 | (BACKWARDS if self.backwards else 0)
        return write_heads([head]) + struct.pack("<4d", half, self.b, half, self.d)
