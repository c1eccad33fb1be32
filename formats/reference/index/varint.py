"""LEB128 varints of at most 4 bytes, for the codecs ``rle`` and ``delta`` (their pages in spec/index/)."""

from __future__ import annotations

MAX_BYTES = 4


def split_varints(section: bytes) -> tuple[list[bytes], bytes]:
    """Return the bytes of each varint that ends within the section, and the bytes of one that does not."""
    numbers = []
    begin = 0
    for at, byte in enumerate(section):
        if byte < 0x80:
            numbers.append(section[begin : at + 1])
            begin = at + 1
    return numbers, section[begin:]


def is_shortest(number: bytes) -> bool:
    """Return whether a varint has the fewest bytes for its number, and at most 4."""
    return len(number) <= MAX_BYTES and (len(number) == 1 or number[-1] != 0)


def decode_varint(number: bytes) -> int:
    """Return the number that one varint holds."""
    value = 0
    for n, byte in enumerate(number):
        value |= (byte & 0x7F) << 7 * n
    return value
