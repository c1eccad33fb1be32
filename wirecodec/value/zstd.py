"""``zstd``: the values through the Zstandard compressor, losslessly (formats/spec/value/zstd.md).

The frame's header and blocks are checked here, before the library sees it: it allocates whatever a frame
says, and takes more than one frame, and what follows them.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from wirecodec.arrays import Array, Bytes
from wirecodec.errors import EncodeError, Invalid, Malformed
from wirecodec.limits import DecodeLimits
from wirecodec.validation import as_flag, as_integer, settle
from wirecodec.value.byte_shuffle import from_content, to_content

__all__ = ["Zstd"]

_MAGIC = b"\x28\xb5\x2f\xfd"
_SINGLE = 0x20
_REFUSED = 0x1F
"""Of the descriptor: two bits that are reserved, the checksum's, and two for a dictionary."""
_MAX_WINDOW = 2**23
_MAX_BLOCK = 2**17


@dataclass(frozen=True)
class Zstd:
    """Every bit comes back, those of NaN and Inf included.

    Args:
        level: 1, fast, to 19, small; readers need not know it.
        shuffle: whether the values are cut into byte planes first, which makes gradients smaller.
    """

    name: ClassVar[str] = "zstd"
    wire_id: ClassVar[int] = 7
    carries_nonfinite: ClassVar[bool] = True
    level: int = 3
    shuffle: bool = True

    def __post_init__(self) -> None:
        level = as_integer(self.level, "zstd: level")
        if not 1 <= level <= 19:  # above, windows are larger than readers take
            raise EncodeError(f"zstd: level is {level}; it must be from 1 to 19")
        settle(self, level=level, shuffle=as_flag(self.shuffle, "zstd: shuffle"))

    def encode(self, values: Array, stream: int) -> Bytes:
        """A byte that says whether there are planes, and one frame that states its size."""
        import zstandard

        frame = zstandard.ZstdCompressor(level=self.level).compress(to_content(values, self.shuffle))
        return np.frombuffer(bytes([self.shuffle]) + frame, np.uint8)

    def max_bytes(self, r: int, dtype: np.dtype[Any]) -> int:
        """Return the most bytes of a section of at most r values of ``dtype``."""
        size = r * dtype.itemsize
        return 1 + size + (size >> 8) + (max(2**17 - size, 0) >> 11)  # ZSTD_compressBound

    @classmethod
    def decode(cls, section: Bytes, r: int, dtype: np.dtype[Any], limits: DecodeLimits) -> Array:
        """The values of a frame whose header and blocks are right."""
        import zstandard

        from wirecodec.kernels.cpu.coding.zstd_frame import end_of_blocks

        if section[0] > 1:
            raise Malformed("zstd-parameter", f"shuffle is {section[0]}")
        size = r * dtype.itemsize
        frame = section[1:].tobytes()  # what was checked must be what is decompressed
        start, longest = _check_header(frame, size)
        end = end_of_blocks(np.frombuffer(frame, np.uint8), start, longest)
        if end < 0:
            raise Malformed("zstd-block", "a block is cut, too long or of no type, or none is the last")
        if end < len(frame):
            raise Malformed("zstd-trailing", f"{len(frame) - end} bytes after the last block")
        try:
            content = _decompressor().decompress(frame)
        except zstandard.ZstdError as error:
            raise Malformed("zstd-content", str(error)) from None
        if len(content) != size:
            raise Malformed("zstd-content", f"{len(content)} bytes for {r} values of {dtype.itemsize}")
        return from_content(content, bool(section[0]), dtype)


_local = threading.local()


def _decompressor() -> Any:
    """Return this thread's decompressor: making one takes longer than decompressing a small frame."""
    import zstandard

    found = getattr(_local, "decompressor", None)
    if found is None:
        found = _local.decompressor = zstandard.ZstdDecompressor()
    return found


def _check_header(frame: bytes, size: int) -> tuple[int, int]:
    """Where the blocks begin, and how long they may be, in a frame that must state ``size``."""
    if len(frame) < 5 or frame[:4] != _MAGIC:
        raise Malformed("zstd-frame", "no frame begins here")
    descriptor = frame[4]
    width = descriptor >> 6  # the content size takes 2^width bytes, but none or one where that is 0
    single = bool(descriptor & _SINGLE)
    if descriptor & _REFUSED or (width == 0 and not single):
        raise Malformed("zstd-header", f"descriptor {descriptor:#04x}")
    at = 5 if single else 6
    start = at + (1 << width)
    if len(frame) < start:
        raise Malformed("zstd-frame", f"the header takes {start} bytes, and there are {len(frame)}")
    stated = int.from_bytes(frame[at:start], "little") + (256 if width == 1 else 0)
    if stated != size:
        raise Invalid("zstd-size", f"the frame states {stated} bytes, not {size}")
    window = stated
    if not single:
        window = 1 << 10 + (frame[5] >> 3)
        window += (window >> 3) * (frame[5] & 7)
    if window > _MAX_WINDOW:
        raise Invalid("zstd-window", f"a window of {window} bytes")
    return start, min(window, _MAX_BLOCK)
