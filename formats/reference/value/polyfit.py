"""Value codec 9, polyfit: decoding (spec/value/polyfit.md), piecewise polynomials on sorted values."""

from __future__ import annotations

import math
import struct

from formats.reference.errors import Invalid, Malformed
from formats.reference.floats import FLOAT64, Format, pack_elements
from formats.reference.value.curves import LENGTH_MASK, read_headers, read_raw, round_to_element

MAX_DEGREE = 8


def coefficient_format(dtype: Format) -> str:
    """Return the letter that struct has for the type of the coefficients."""
    return "d" if dtype == FLOAT64 else "f"


def decode_polyfit(section: bytes, r: int, dtype: Format) -> bytes:
    """Decode pieces and their polynomials.

    Args:
        section: bytes of the value section.
        r: number of values, not 0.
        dtype: the element type.

    Returns:
        The elements' little-endian bytes, in stored order.

    Raises:
        WireError: Malformed or Invalid.
    """
    heads = read_headers(section, r, "polyfit")
    if not heads:
        return read_raw(section, r, dtype, "polyfit")
    pieces = [((head & LENGTH_MASK) + 1, head >> 24) for head in heads]
    for length, degree in pieces:
        if degree > MAX_DEGREE or degree >= length:
            raise Malformed("polyfit-piece", f"a piece of {length} values has degree {degree}")
    if sum(length for length, _ in pieces) != r:
        raise Invalid("polyfit-sum", f"the sum of the lengths is not {r}")
    count = sum(degree + 1 for _, degree in pieces)
    body = 4 + 4 * len(heads)
    form = f"<{count}{coefficient_format(dtype)}"
    if len(section) != body + struct.calcsize(form):
        raise Malformed("polyfit-length", f"{len(section)} bytes for {count} coefficients")
    coefficients = struct.unpack_from(form, section, body)
    if not all(map(math.isfinite, coefficients)):
        raise Invalid("polyfit-coefficient", "a coefficient is NaN or infinite")
    values = []
    used = 0
    for length, degree in pieces:
        curve = _evaluate_curve(length, coefficients[used : used + degree + 1])
        values += [round_to_element(v, dtype) for v in curve]
        used += degree + 1
    return pack_elements(values, dtype.itemsize)


def _evaluate_curve(n: int, coefficients: tuple[float, ...]) -> list[float]:
    values = []
    for row in evaluate_basis(n, len(coefficients) - 1):
        total = coefficients[0]
        for c, p in zip(coefficients[1:], row[1:], strict=True):
            total = total + c * p
        values.append(total)
    return values


def evaluate_basis(n: int, degree: int) -> list[list[float]]:
    """Evaluate the polynomials 0 … degree at each of n points."""
    step = 1.0 / (n - 1) if n > 1 else 0.0
    betas = [0.0]
    for k in range(1, degree):
        betas.append(
            float(k * k) * float(n * n - k * k) / (float(4 * k * k - 1) * (float(n - 1) * float(n - 1)))
        )
    rows = []
    for i in range(n):
        x = float(2 * i - (n - 1)) * step
        before, row = 0.0, [1.0]
        for beta in betas[:degree]:
            following = x * row[-1] - beta * before
            before = row[-1]
            row.append(following)
        rows.append(row)
    return rows
