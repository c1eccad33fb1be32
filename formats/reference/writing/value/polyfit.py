"""Value codec 9, polyfit: writing of simple sections (spec/value/polyfit.md)."""

from __future__ import annotations

import math
import struct
from dataclasses import dataclass
from typing import ClassVar

from formats.reference.floats import Format, to_float, unpack_elements
from formats.reference.value.polyfit import coefficient_format, evaluate_basis
from formats.reference.writing.value.curves import write_headers


@dataclass(frozen=True)
class PolyFit:
    """Value codec 9: pieces of equal length, or the values themselves if ``length`` is 0.

    Coefficients are projections, one after the other. Coefficients that do not fit their type become 0.
    """

    id: ClassVar[int] = 9
    scheme: ClassVar[str] = "polyfit"
    ordered: ClassVar[bool] = True
    length: int = 40
    degree: int = 3

    def write_section(self, values: bytes, dtype: Format, stream: int) -> bytes:
        """Write a curve near the sorted values."""
        if not self.length:
            return write_headers([]) + values
        y = [to_float(bits, dtype) for bits in unpack_elements(values, dtype.itemsize)]
        heads, data = [], b""
        for first in range(0, len(y), self.length):
            part = y[first : first + self.length]
            degree = min(self.degree, len(part) - 1)
            rows = evaluate_basis(len(part), degree)
            heads.append(len(part) - 1 | degree << 24)
            for k in range(degree + 1):
                square = math.fsum(row[k] * row[k] for row in rows)
                c = sum(row[k] * (v / square) for row, v in zip(rows, part, strict=True))
                data += _pack_coefficient(c, coefficient_format(dtype))
        return write_headers(heads) + data


def _pack_coefficient(c: float, form: str) -> bytes:
    try:
        data = struct.pack("<" + form, c)
    except OverflowError:
        return struct.pack("<" + form, 0.0)
    return data if math.isfinite(c) else struct.pack("<" + form, 0.0)
