"""Tensors stored as coefficients: SPEC section 3.5, rows 35, 36 and 50 of section 7."""

from __future__ import annotations

import math
import struct

from formats.reference.errors import Invalid, Malformed
from formats.reference.floats import FLOAT32, FLOAT64, Format, to_float, unpack_elements

PLAIN, RFFT, DCT = 0, 1, 2
COMPONENTS = {PLAIN: 1, RFFT: 2, DCT: 1}
"""Components per element of an entry, by domain: 2 for complex coefficients."""
MAX_MAGNITUDE = 2.0**1000


def smooth_length(n: int) -> int:
    """Return m: the least number ≥ n that has no prime factors but 2, 3 and 5; 0 for 0."""
    if n == 0:
        return 0
    odd: list[int] = [
        5**a * 3**b for a in range(n.bit_length()) for b in range(n.bit_length()) if 5**a * 3**b < 2 * n
    ]
    return min(p << max((-(-n // p) - 1).bit_length(), 0) for p in odd)


def coefficient_count(domain: int, n: int) -> int:
    """Return the number of coefficients of a tensor of n elements."""
    m = smooth_length(n)
    return m // 2 + 1 if domain == RFFT and m else m


def stored_type(domain: int, dtype: Format) -> Format:
    """Return the type of the components in an entry's value section."""
    return dtype if domain == PLAIN or dtype == FLOAT64 else FLOAT32


def check_coefficients(domain: int, values: bytes, dtype: Format) -> None:
    """Check that every component is finite and at most 2^1000 in magnitude (the transforms' pages).

    Args:
        domain: the entry's domain; nothing is checked in domain 0.
        values: the components' little-endian bytes.
        dtype: their type.

    Raises:
        WireError: Invalid.
    """
    if domain == PLAIN:
        return
    for bits in unpack_elements(values, dtype.itemsize):
        if not abs(to_float(bits, dtype)) <= MAX_MAGNITUDE:
            raise Invalid("transform-value", f"a component has the bits {bits:#x}")


def read_lengths(body: bytes) -> list[tuple[int, int]]:
    """Make the checks of row 35; return (key, n) of each row."""
    if not body or len(body) % 16:
        raise Malformed("transform-record", f"{len(body)} bytes are not a positive number of rows of 16")
    rows = list(struct.iter_unpack("<IIQ", body))
    if any(reserved for _, reserved, _ in rows):
        raise Malformed("transform-record", "a reserved word is not 0")
    return [(key, n) for key, _, n in rows]


def check_lengths(rows: list[tuple[int, int]], coefficients: dict[int, tuple[int, int]]) -> dict[int, int]:
    """Make the checks of row 36: a row for each tensor stored as coefficients, with a matching n.

    Args:
        rows: (key, n) of each row of the record; empty without a record.
        coefficients: by key, ascending, the domain and the number of coefficients of each such tensor.

    Returns:
        n by key.

    Raises:
        WireError: Invalid.
    """
    if [key for key, _ in rows] != list(coefficients):
        raise Invalid("transform", f"rows have keys {[key for key, _ in rows]}, not {list(coefficients)}")
    for key, n in rows:
        domain, expected = coefficients[key]
        # n is bounded first, because coefficient_count is costly for a large n.
        if n > 2 * expected or coefficient_count(domain, n) != expected:
            raise Invalid("transform", f"{expected} coefficients do not match {n} elements")
    return dict(rows)


def tolerance(stored: Format, values: bytes) -> float:
    """Return the largest error of a reader's elements before they are rounded (SPEC 3.5).

    Args:
        stored: type of the coefficients' components.
        values: the components, as little-endian bytes.
    """
    norm = math.hypot(*(to_float(bits, stored) for bits in unpack_elements(values, stored.itemsize)))
    return norm * 2.0 ** (-48 if stored == FLOAT64 else -20)
