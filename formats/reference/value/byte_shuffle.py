"""Byte planes, both ways (pages deflate and zstd): byte j of value i is byte j·r + i of the content."""

from __future__ import annotations


def decode_content(content: bytes, shuffle: bool, itemsize: int) -> bytes:
    """The elements' little-endian bytes.

    Args:
        content: what was compressed.
        shuffle: whether it is in planes.
        itemsize: bytes of an element.
    """
    if not shuffle:
        return content
    out = bytearray(len(content))
    r = len(content) // itemsize
    for j in range(itemsize):
        out[j::itemsize] = content[j * r : (j + 1) * r]
    return bytes(out)


def encode_content(values: bytes, shuffle: bool, itemsize: int) -> bytes:
    """The inverse of ``from_content``."""
    return b"".join(values[j::itemsize] for j in range(itemsize)) if shuffle else values
