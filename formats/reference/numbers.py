"""Elements as Python numbers: float, int, bool, complex, or a pair of floats (SPEC sections 1 and 3.6)."""

from __future__ import annotations

import math
import struct
from collections.abc import Callable
from typing import TypeAlias

from formats.reference.element_types import TYPE_NAMED
from formats.reference.floats import BY_NAME, Format, to_float, unpack_elements

Number: TypeAlias = float | int | bool | complex | tuple[float, float]

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
    convert = _BYTES.get(dtype) or (lambda word: to_float(word, BY_NAME.get(dtype, E5M2)))
    return [convert(word) for word in bits]


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


def _from_e8m0fnu(bits: int) -> float:
    """Return the power of two of an exponent with bias 127, or NaN."""
    return math.nan if bits == 0xFF else math.ldexp(1, bits - 127)


def _from_e2m1fn(bits: int) -> float:
    """Return the number of 4 bits: 2 exponent bits of bias 1, and half a unit of fraction."""
    exponent, fraction = bits >> 1 & 3, bits & 1
    magnitude = math.ldexp(2 + fraction, exponent - 2) if exponent else fraction / 2
    return math.copysign(magnitude, -1 if bits >> 3 else 1)


_BYTES: dict[str, Callable[[int], Number]] = {
    "float8_e4m3fn": _from_e4m3fn,
    "float8_e8m0fnu": _from_e8m0fnu,
    "float4_e2m1fn_x2": lambda bits: (_from_e2m1fn(bits & 15), _from_e2m1fn(bits >> 4)),
}
