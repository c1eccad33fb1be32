"""Value codec 12, 3lc: decoding (spec/value/3lc.md), -1, 0 or 1 times a scale, with runs of zeros."""

from __future__ import annotations

import itertools

from formats.reference.errors import Invalid, Malformed
from formats.reference.floats import FLOAT32, Format, convert, largest_finite, pack_elements

POWERS = (81, 27, 9, 3, 1)
ZEROS = 121
FIRST_RUN = 243
MAX_RUN = 14


def decode_three_lc(section: bytes, r: int, dtype: Format) -> bytes:
    """Decode a scale and digits.

    Args:
        section: bytes of the value section.
        r: number of values, not 0.
        dtype: the element type.

    Returns:
        The elements' little-endian bytes.

    Raises:
        WireError: Malformed or Invalid.
    """
    if len(section) < 4:
        raise Malformed("3lc-length", f"{len(section)} bytes")
    scale = int.from_bytes(section[:4], "little")
    if scale > largest_finite(dtype):  # also true for a set sign bit, infinity and NaN
        raise Invalid("3lc-scale", f"the scale has the bits {scale:#010x}")
    tokens = section[4:]
    if sum(run_length(token) for token in tokens) != -(-r // len(POWERS)):
        raise Malformed("3lc-count", f"{len(tokens)} bytes for {r} values")
    for token, following in itertools.pairwise(tokens):
        if is_run(token) and is_run(following) and run_length(token) < MAX_RUN:
            raise Malformed("3lc-run", f"a run of {run_length(token)} precedes another run")
    codes = [ZEROS if is_run(token) else token for token in tokens for _ in range(run_length(token))]
    magnitude = convert(scale, FLOAT32, dtype)
    words = (magnitude | dtype.sign, 0, magnitude)
    digits = [code // power % 3 for code in codes for power in POWERS]
    if any(digit != 1 for digit in digits[r:]):
        raise Malformed("3lc-padding", "a digit after the last value is not neutral")
    return pack_elements([words[digit] for digit in digits[:r]], dtype.itemsize)


def run_length(token: int) -> int:
    """Return the number of codes that a byte represents."""
    return token - FIRST_RUN + 2 if token >= FIRST_RUN else 1


def is_run(token: int) -> bool:
    """Return whether a byte represents codes of five zeros."""
    return token == ZEROS or token >= FIRST_RUN
