"""Elements as Python numbers: float, int, bool or complex (SPEC sections 1 and 3.6)."""

from __future__ import annotations

import math
import struct
from typing import TypeAlias

from formats.reference.element_types import TYPE_NAMED
from formats.reference.floats import BY_NAME, Format, to_float, unpack_elements

Number: TypeAlias = float | int | bool | complex

E5M2 = Format(0, "float8_e5m2", 5, 2)
_LETTERS = {
    **{"int8": "b", "int16": "h", "int32": "i", "int64": "q"},
    **{"uint8": "B", "uint16": "H", "uint32": "I", "uint64": "Q", "bool": "?"},
    **{"complex64": "ff", "complex128": "dd"},
}


def to_numbers(values: bytes, dtype: str) -> list[Number]:
    """Convert elements to numbers, each exactly.

    Args:
        values: their little-endian bytes.
        dtype: name of the element type.
    """
    if letters := _LETTERS.get(dtype):
        rows = struct.iter_unpack("<" + letters, values)
        return [complex(*row) if len(row) == 2 else row[0] for row in rows]
    bits = unpack_elements(values, TYPE_NAMED[dtype].itemsize)
    if dtype == "float8_e4m3fn":
        return [_from_e4m3fn(word) for word in bits]
    return [to_float(word, BY_NAME.get(dtype, E5M2)) for word in bits]


def _from_e4m3fn(bits: int) -> float:
    """Return the number of an element with 4 exponent bits of bias 7, and NaN in place of infinities."""
    exponent, fraction = bits >> 3 & 15, bits & 7
    if bits & 0x7F == 0x7F:
        magnitude = math.nan
    elif exponent:
        magnitude = math.ldexp(8 + fraction, exponent - 10)
    else:
        magnitude = math.ldexp(fraction, -9)
    return math.copysign(magnitude, -1 if bits >> 7 else 1)
