"""Byte planes, both directions (pages deflate and zstd): byte j of value i is byte j·r + i of the content."""

from __future__ import annotations


def decode_content(content: bytes, shuffle: bool, itemsize: int) -> bytes:
    """Return the elements' little-endian bytes.

    Args:
        content: the decompressed bytes.
        shuffle: whether they are in byte planes.
        itemsize: bytes per element.
    """
    if not shuffle:
        return content
    out = bytearray(len(content))
    r = len(content) // itemsize
    for j in range(itemsize):
        out[j::itemsize] = content[j * r : (j + 1) * r]
    return bytes(out)


def encode_content(values: bytes, shuffle: bool, itemsize: int) -> bytes:
    """Return the content for elements, the inverse of ``decode_content``."""
    return b"".join(values[j::itemsize] for j in range(itemsize)) if shuffle else values
