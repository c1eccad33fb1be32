"""Value codec 4, qsgd: decoding (spec/value/qsgd.md).

Packed codes of 2 to 8 bits, one binary32 scale per bucket. All arithmetic is binary32, held in Python floats
and rounded after each operation.
"""

from __future__ import annotations

import math
import struct

from formats.reference.errors import Invalid, Malformed
from formats.reference.floats import (
    FLOAT32,
    MIN_SCALE,
    Format,
    convert,
    largest_finite,
    pack_elements,
    round_to_float32,
    to_float,
    to_float32_bits,
    unpack_elements,
)
from formats.reference.packed_codes import has_trailing_bit, packed_size, unpack_codes

HEADER_BYTES = 8
MAX_BUCKET = 2**24


def decode_qsgd(section: bytes, r: int, dtype: Format) -> bytes:
    """Decode levels of a scale per bucket.

    Args:
        section: bytes of the value section.
        r: number of values, not 0.
        dtype: the element type.

    Returns:
        The elements' little-endian bytes.

    Raises:
        WireError: Malformed or Invalid.
    """
    if len(section) < HEADER_BYTES:
        raise Malformed("qsgd-length", f"{len(section)} bytes")
    bits, norm, reserved, bucket = struct.unpack_from("<BBHI", section)
    if not 2 <= bits <= 8 or norm > 1 or reserved != 0:
        raise Malformed("qsgd-parameter", f"bits is {bits}, norm is {norm}, reserved is {reserved}")
    if bucket % 16 or not 16 <= bucket <= MAX_BUCKET:
        raise Malformed("qsgd-parameter", f"bucket is {bucket}")
    n_buckets = -(-r // bucket)
    start = HEADER_BYTES + 4 * n_buckets
    if len(section) != start + packed_size(r, bits):
        raise Malformed("qsgd-length", f"{len(section)} bytes for {r} values")
    scales = unpack_elements(section[HEADER_BYTES:start], 4)
    for scale in scales:
        if (
            scale > largest_finite(dtype) or 0 < scale < MIN_SCALE
        ):  # also true for a set sign bit, infinity and NaN
            raise Invalid("qsgd-scale", f"a scale has the bits {scale:#010x}")
    if has_trailing_bit(section[start:], r, bits):
        raise Malformed("qsgd-padding", "a bit after the last code is set")
    codes = unpack_codes(section[start:], r, bits)
    s = (1 << (bits - 1)) - 1
    for i, code in enumerate(codes):
        if code > 2 * s or (scales[i // bucket] == 0 and code != s):
            raise Invalid("qsgd-code", f"value {i} has code {code}")
    known: dict[tuple[int, int], int] = {}
    values = []
    for i, code in enumerate(codes):
        scale = scales[i // bucket]
        if (scale, code) not in known:
            known[scale, code] = _dequantize(scale, code - s, s, dtype)
        values.append(known[scale, code])
    return pack_elements(values, dtype.itemsize)


def _dequantize(scale_bits: int, q: int, s: int, dtype: Format) -> int:
    """Return the element bits of level q, -s … s, in a bucket of this scale."""
    scale = to_float(scale_bits, FLOAT32)
    if q == 0:
        return 0  # +0, also if the scale is 0
    value = math.copysign(scale, q) if abs(q) == s else round_to_float32(q * round_to_float32(scale / s))
    return convert(to_float32_bits(value), FLOAT32, dtype)
