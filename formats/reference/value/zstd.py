"""Value codec 7, zstd: decoding (spec/value/zstd.md).

The header and the blocks of a frame are fully checked here. The caller provides the decompressor of the
blocks' content, because the standard library has none before Python 3.14.
"""

from __future__ import annotations

from collections.abc import Callable

from formats.reference.element_types import ElementType
from formats.reference.errors import Invalid, Malformed, Unsupported
from formats.reference.value.byte_shuffle import decode_content

Decompress = Callable[[bytes, int], bytes]
"""Returns the content of (frame, content size); raises any exception if the frame is invalid."""
MAGIC = 0xFD2FB528
MAX_WINDOW = 2**23
MAX_BLOCK = 2**17
STORED, REPEATED, RESERVED = 0, 1, 3
"""Block types."""


def decode_zstd(section: bytes, r: int, dtype: ElementType, decompress: Decompress | None = None) -> bytes:
    """Decode a Zstandard frame.

    Args:
        section: bytes of the value section, at least one.
        r: number of values, not 0.
        dtype: the element type.
        decompress: returns the content of a frame.

    Returns:
        The elements' little-endian bytes.

    Raises:
        WireError: Malformed or Invalid; Unsupported without a decompressor.
    """
    if decompress is None:
        raise Unsupported("value-codec", "the caller gave no Zstandard decompressor")
    shuffle, frame = section[0], section[1:]
    if shuffle not in (0, 1):
        raise Malformed("zstd-parameter", f"shuffle is {shuffle}; it must be 0 or 1")
    size = r * dtype.itemsize
    start, window = read_header(frame, size)
    check_blocks(frame, start, min(window, MAX_BLOCK))
    try:
        content = decompress(frame, size)
    except Exception as error:
        raise Malformed("zstd-content", str(error)) from error
    if len(content) != size:
        raise Malformed("zstd-content", f"{len(content)} bytes for {r} values")
    return decode_content(content, shuffle == 1, dtype.itemsize)


def read_header(frame: bytes, size: int) -> tuple[int, int]:
    """Read the header of a frame (RFC 8878, 3.1.1.1).

    Args:
        frame: the section without its first byte.
        size: the content size that the frame must state.

    Returns:
        The offset of the first block, and the window size.

    Raises:
        WireError: Malformed or Invalid.
    """
    if len(frame) < 5 or int.from_bytes(frame[:4], "little") != MAGIC:
        raise Malformed("zstd-frame", "the magic number is missing")
    descriptor = frame[4]
    dictionary, checksum, reserved = descriptor & 3, descriptor >> 2 & 1, descriptor >> 3 & 3
    single, size_flag = descriptor >> 5 & 1, descriptor >> 6
    if dictionary or checksum or reserved or (size_flag == 0 and not single):
        raise Malformed("zstd-header", f"the descriptor is {descriptor:#010b}")
    at = 5 if single else 6
    size_bytes = (1, 2, 4, 8)[size_flag]
    if len(frame) < at + size_bytes:
        raise Malformed("zstd-frame", f"{len(frame)} bytes end within the header")
    stated = int.from_bytes(frame[at : at + size_bytes], "little")
    if size_bytes == 2:
        stated += 256
    if stated != size:
        raise Invalid("zstd-size", f"the frame states {stated} bytes; {size} are needed")
    if single:
        window = stated
    else:
        exponent, mantissa = frame[5] >> 3, frame[5] & 7
        window = 2 ** (10 + exponent) * (8 + mantissa) // 8
    if window > MAX_WINDOW:
        raise Invalid("zstd-window", f"the window is {window} bytes")
    return at + size_bytes, window


def check_blocks(frame: bytes, start: int, longest: int) -> None:
    """Check the sequence of block headers, which must end where the frame ends (RFC 8878, 3.1.1.2).

    Args:
        frame: the section without its first byte.
        start: offset of the first block.
        longest: the greatest size that a block may state.

    Raises:
        WireError: Malformed.
    """
    at = start
    while True:
        if at + 3 > len(frame):
            raise Malformed("zstd-block", f"the block header at byte {at} is incomplete")
        header = int.from_bytes(frame[at : at + 3], "little")
        last, kind, size = header & 1, header >> 1 & 3, header >> 3
        if kind == RESERVED or size > longest:
            raise Malformed("zstd-block", f"a block has type {kind} and {size} bytes")
        at += 3 + (1 if kind == REPEATED else size)
        if at > len(frame):
            raise Malformed("zstd-block", f"a block ends at byte {at} of {len(frame)}")
        if last:
            break
    if at != len(frame):
        raise Malformed("zstd-trailing", f"{len(frame) - at} bytes after the last block")
