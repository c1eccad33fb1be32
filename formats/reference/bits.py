"""Bit streams and lanes, both directions (SPEC section 1; pages rice and qsgd).

A *stream* holds values of ``width`` bits one after the other, each from its lowest bit, and fills bytes from
bit 0 upwards. A *lane* block holds 32 rows of values in ``lanes`` streams: value j is row j div lanes of lane
j mod lanes. Each lane fills exactly ``width`` 32-bit words, and word w of lane l is word lanes*w + l of the
block. The time of every function is linear in its input.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence

ROWS = 32


def unpack_stream(data: bytes, count: int, width: int) -> list[int]:
    """Read the first values of a stream.

    Args:
        data: the stream; it must be long enough.
        count: number of values.
        width: bits per value, 0 … 24.
    """
    mask = (1 << width) - 1
    values = []
    for i in range(count):
        byte, bit = divmod(i * width, 8)
        window = int.from_bytes(data[byte : byte + 4], "little")  # 7 + 24 bits fit 4 bytes
        values.append(window >> bit & mask)
    return values


def pack_stream(values: Sequence[int], width: int, unit: int) -> bytes:
    """Pack values as a stream, padded with zero bits.

    Args:
        values: integers below 2^width.
        width: bits per value, 0 … 24.
        unit: the stream's length is a multiple of this many bytes.
    """
    out = bytearray()
    buffer = bits = 0
    for value in values:
        buffer |= value << bits
        bits += width
        while bits >= 8:
            out.append(buffer & 0xFF)
            buffer >>= 8
            bits -= 8
    if bits:
        out.append(buffer)
    out += bytes(-len(out) % unit)
    return bytes(out)


def has_bit_from(data: bytes, bit: int) -> bool:
    """Return whether a bit of ``data`` at position ``bit`` or later is set, as padding must not be."""
    byte, rest = divmod(bit, 8)
    if byte >= len(data):
        return False
    return bool(data[byte] >> rest) or any(data[byte + 1 :])


def unpack_lanes(data: bytes, lanes: int, width: int) -> list[int]:
    """Read the 32*lanes values of a block in lanes.

    Args:
        data: lanes*width words.
        lanes: number of lanes.
        width: bits per value.
    """
    words = struct.unpack(f"<{lanes * width}I", data)
    mask = (1 << width) - 1
    values = [0] * (ROWS * lanes)
    for lane in range(lanes):
        stream = 0
        for w in range(width):
            stream |= words[lanes * w + lane] << (32 * w)
        for row in range(ROWS):
            values[lanes * row + lane] = stream >> (row * width) & mask
    return values


def pack_lanes(values: Sequence[int], lanes: int, width: int) -> bytes:
    """Pack 32*lanes values as the lanes*width words of a block.

    Args:
        values: 32*lanes integers below 2^width.
        lanes: number of lanes.
        width: bits per value.
    """
    words = [0] * (lanes * width)
    for lane in range(lanes):
        stream = 0
        for row in range(ROWS):
            stream |= values[lanes * row + lane] << (row * width)
        for w in range(width):
            words[lanes * w + lane] = stream >> (32 * w) & 0xFFFFFFFF
    return struct.pack(f"<{lanes * width}I", *words)
