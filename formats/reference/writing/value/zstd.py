"""Value codec 7, zstd: writing of frames with stored and repeated blocks, without a compressor."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from formats.reference.element_types import ElementType
from formats.reference.value.byte_shuffle import encode_content
from formats.reference.value.zstd import MAGIC, MAX_BLOCK, REPEATED, STORED


@dataclass(frozen=True)
class Zstd:
    """Value codec 7, without a compressor; a block of one repeated byte is shortened."""

    id: ClassVar[int] = 7
    scheme: ClassVar[str] = "zstd"
    shuffle: bool = True
    block: int = MAX_BLOCK
    """Bytes of content per block, at most 128 KiB."""
    window: int | None = None
    """The byte of the window descriptor; None for a single segment."""

    def write_section(self, values: bytes, dtype: ElementType, stream: int) -> bytes:
        """Write the elements in stored and repeated blocks."""
        content = encode_content(values, self.shuffle, dtype.itemsize)
        blocks = [content[i : i + self.block] for i in range(0, len(content), self.block)]
        out = write_frame_header(len(content), self.window)
        for n, data in enumerate(blocks):
            same = data == data[:1] * len(data)
            kind = REPEATED if same else STORED
            out += write_block_header(n + 1 == len(blocks), kind, len(data)) + (data[:1] if same else data)
        return bytes([self.shuffle]) + out


def write_frame_header(size: int, window: int | None = None, width: int | None = None) -> bytes:
    """Write the header of a frame.

    Args:
        size: content size in bytes.
        window: the byte of the window descriptor; None for a single segment.
        width: bytes of the content size field; None for the fewest.
    """
    fewest = 1 if size < 256 and window is None else 2 if 256 <= size < 65_792 else 4
    width = width or (4 if fewest == 1 and window is not None else fewest)
    descriptor = (1, 2, 4, 8).index(width) << 6 | (0x20 if window is None else 0)
    stated = size - 256 if width == 2 else size
    middle = b"" if window is None else bytes([window])
    return MAGIC.to_bytes(4, "little") + bytes([descriptor]) + middle + stated.to_bytes(width, "little")


def write_block_header(last: bool, kind: int, size: int) -> bytes:
    """Write the three bytes before a block.

    Args:
        last: whether it is the frame's last block.
        kind: type of the block.
        size: number of its bytes, or of the repetitions of its one byte.
    """
    return (last | kind << 1 | size << 3).to_bytes(3, "little")
