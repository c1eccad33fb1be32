"""Index codec 8, binned: decoding (spec/index/binned.md).

The form of AdaComp: a record for each present element, with its position in its bin, and for each empty bin.
"""

from __future__ import annotations

import struct

from formats.reference.bits import has_bit_from
from formats.reference.errors import Invalid, Malformed

MAX_BIN = 16_383


def decode_binned(section: bytes, r: int, d: int) -> list[int]:
    """Decode positions within bins.

    Args:
        section: bytes of the index section.
        r: number of indices, 0 < r < d.
        d: number of elements, present or not.

    Returns:
        r strictly ascending indices below d.

    Raises:
        WireError: Malformed or Invalid.
    """
    if len(section) < 2:
        raise Malformed("binned-length", f"{len(section)} bytes")
    (size,) = struct.unpack_from("<H", section)
    if not 1 <= size <= MAX_BIN:
        raise Malformed("binned-bin", f"bin is {size}; it must be 1 to {MAX_BIN}")
    records = section[2:]
    w = size.bit_length()
    indices: list[int] = []
    at = first = 0
    before = -1  # the previous position in the same bin
    last = True
    while len(indices) < r:
        if at + w + 1 > 8 * len(records):
            raise Malformed("binned-length", f"the records end after {len(indices)} of {r} elements")
        window = int.from_bytes(records[at // 8 : at // 8 + 3], "little") >> at % 8  # 7 + 15 bits fit 3 bytes
        number = window & ((1 << w) - 1)
        last = bool(window >> w & 1)
        at += w + 1
        if number > size:
            raise Malformed("binned-number", f"position {number} in a bin of {size}")
        if number == size and (before >= 0 or not last):
            raise Malformed(
                "binned-empty", "the record of an empty bin is within another bin or does not end its bin"
            )
        if number < size:
            if number <= before:
                raise Invalid("index-order", f"position {number} follows {before}")
            if first + number >= d:
                raise Invalid("index-range", f"element {first + number} is not below {d}")
            indices.append(first + number)
        before = -1 if last else number
        first += size if last else 0
    if not last:
        raise Malformed("binned-last", "the last record does not end its bin")
    if len(records) > -(-at // 8):
        raise Malformed("binned-length", "bytes after the last record")
    if has_bit_from(records, at):
        raise Malformed("binned-padding", "a bit after the last record is set")
    return indices
