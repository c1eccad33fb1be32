"""Value codec 10, dexpfit: decoding (spec/value/dexpfit.md), sums of two exponentials on sorted values."""

from __future__ import annotations

import math
import struct

from formats.reference.errors import Invalid, Malformed
from formats.reference.floats import Format, pack_elements
from formats.reference.value.curves import LENGTH_MASK, read_headers, read_raw, round_to_element

BACKWARDS = 1 << 24
MAX_FACTOR = 2.0**900
MAX_RATE = 64.0
MIN_EXPONENT = -340.0
BLOCK = 64
INVERSE_LN2 = float.fromhex("0x1.71547652b82fep+0")
LN2_HIGH = float.fromhex("0x1.62e42feep-1")
LN2_LOW = float.fromhex("0x1.a39ef35793c76p-33")
TERMS = [1.0 / math.factorial(n) for n in range(12)]


def decode_dexpfit(section: bytes, r: int, dtype: Format) -> bytes:
    """Decode curves of four parameters.

    Args:
        section: bytes of the value section.
        r: number of values, not 0.
        dtype: the element type.

    Returns:
        The elements' little-endian bytes, in stored order.

    Raises:
        WireError: Malformed or Invalid.
    """
    heads = read_headers(section, r, "dexpfit")
    if not heads:
        return read_raw(section, r, dtype, "dexpfit")
    if len(section) != 4 + 36 * len(heads):
        raise Malformed("dexpfit-length", f"{len(section)} bytes for {len(heads)} curves")
    for head in heads:
        if head >> 25:
            raise Malformed("dexpfit-curve", f"a head is {head:#010x}")
    if sum((head & LENGTH_MASK) + 1 for head in heads) != r:
        raise Invalid("dexpfit-sum", f"the sum of the lengths is not {r}")
    parameters = list(struct.iter_unpack("<4d", section[4 + 4 * len(heads) :]))
    for a, b, c, d in parameters:
        if not (abs(a) <= MAX_FACTOR and abs(c) <= MAX_FACTOR):  # false for NaN
            raise Invalid("dexpfit-parameter", f"the factors are {a} and {c}")
        if not (-math.inf < b <= MAX_RATE and -math.inf < d <= MAX_RATE):
            raise Invalid("dexpfit-parameter", f"the rates are {b} and {d}")
    values: list[int] = []
    for head, (a, b, c, d) in zip(heads, parameters, strict=True):
        curve = [round_to_element(v, dtype) for v in _evaluate_curve((head & LENGTH_MASK) + 1, a, b, c, d)]
        values += curve[::-1] if head & BACKWARDS else curve
    return pack_elements(values, dtype.itemsize)


def _evaluate_curve(n: int, a: float, b: float, c: float, d: float) -> list[float]:
    values = []
    for first in range(0, n, BLOCK):
        e = exponential(_exponent(b, first + 0.5, n))
        f = exponential(_exponent(d, first + 0.5, n))
        for j in range(min(BLOCK, n - first)):
            g = exponential(_exponent(b, float(j), n))
            h = exponential(_exponent(d, float(j), n))
            values.append(a * (e * g) + c * (f * h))
    return values


def _exponent(rate: float, place: float, n: int) -> float:
    return max(rate * (place / n), MIN_EXPONENT)


def exponential(t: float) -> float:
    """Return e^t for -340 ≤ t ≤ 64, by the page's function."""
    k = math.floor(t * INVERSE_LN2 + 0.5)
    f = (t - k * LN2_HIGH) - k * LN2_LOW
    p = TERMS[11]
    for n in range(10, -1, -1):
        p = p * f + TERMS[n]
    return math.ldexp(p, k)
