"""Elements from coefficients (SPEC section 3.5)."""

from __future__ import annotations

import struct
from collections.abc import Sequence

from formats.reference.floats import FLOAT64, Format, convert, pack_elements, to_float, unpack_elements
from formats.reference.transform.coefficients import DCT, smooth_length, stored_type
from formats.reference.transform.dct import invert_dct
from formats.reference.transform.rfft import invert_rfft


def invert(domain: int, n: int, dtype: Format, indices: Sequence[int], values: bytes) -> bytes:
    """Compute a tensor's elements from its coefficients.

    Args:
        domain: domain of the coefficients, 1 (rfft) or 2 (dct).
        n: number of elements to return.
        dtype: element type of the tensor.
        indices: indices of the coefficients present, ascending.
        values: little-endian bytes of the coefficients' components, already checked.

    Returns:
        The elements' little-endian bytes.
    """
    stored = stored_type(domain, dtype)
    components = [to_float(bits, stored) for bits in unpack_elements(values, stored.itemsize)]
    inverse = invert_dct if domain == DCT else invert_rfft
    sums = inverse(n, smooth_length(n), indices, components)
    return pack_elements([_round_to_element(x, dtype) for x in sums], dtype.itemsize)


def _round_to_element(x: float, dtype: Format) -> int:
    """Return the bits of a number rounded to nearest in the element type, clamped to its finite range."""
    bits = convert(int.from_bytes(struct.pack("<d", x), "little"), FLOAT64, dtype)
    magnitude = bits & (dtype.sign - 1)
    return bits & dtype.sign | min(magnitude, dtype.infinity - 1)
