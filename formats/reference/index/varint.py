"""LEB128 varints of at most 4 bytes, of the codecs ``rle`` and ``delta`` (their pages in spec/index/)."""

from __future__ import annotations

MAX_BYTES = 4


def split_varints(section: bytes) -> tuple[list[bytes], bytes]:
    """The bytes of each number that ends within the section, and those of one that does not."""
    numbers = []
    begin = 0
    for at, byte in enumerate(section):
        if byte < 0x80:
            numbers.append(section[begin : at + 1])
            begin = at + 1
    return numbers, section[begin:]


def is_shortest(number: bytes) -> bool:
    """Whether a varint is not over-long and takes at most 4 bytes."""
    return len(number) <= MAX_BYTES and (len(number) == 1 or number[-1] != 0)


def decode_varint(number: bytes) -> int:
    """The value of one varint."""
    value = 0
    for n, byte in enumerate(number):
        value |= (byte & 0x7F) << 7 * n
    return value
