"""``zstd``: lossless compression by Zstandard (formats/spec/value/zstd.md).

The frame's header and blocks are validated before the library is called. The library would allocate the size
that a frame states, and accept several frames and trailing bytes.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from wirecodec.arrays import Array, Bytes
from wirecodec.errors import EncodeError, Invalid, Malformed
from wirecodec.limits import DecodeLimits
from wirecodec.validation import as_flag, as_integer, set_fields
from wirecodec.value.base import ValueCodec
from wirecodec.value.byte_shuffle import read_content, write_content

_MAGIC = b"\x28\xb5\x2f\xfd"
_SINGLE_SEGMENT = 0x20
_UNSUPPORTED_BITS = 0x1F
"""Descriptor bits that must be 0: two reserved ones, the checksum flag, and two for a dictionary."""
_MAX_WINDOW = 2**23
_MAX_BLOCK = 2**17


@dataclass(frozen=True)
class Zstd(ValueCodec):
    """Zstandard value codec.

    Lossless, including the bits of NaN and Inf. Bits per value depend on the data; incompressible values take
    8 bits per byte and about 10 bytes per chunk. Source: RFC 8878; formats/spec/value/zstd.md.

    Args:
        level: compression level, 1 (fastest) to 19 (smallest). It is not stored.
        shuffle: if True, the bytes are shuffled first, which makes gradients smaller.

    Raises:
        EncodeError: if a parameter is out of range.

    Examples:
        >>> import numpy as np, wirecodec as wc
        >>> x = np.arange(1000, dtype=np.float32)
        >>> blob = wc.encode(x, "all | raw-index | zstd")
        >>> blob.size < x.nbytes / 2, np.array_equal(wc.decode(blob).values, x)
        (True, True)
    """

    name: ClassVar[str] = "zstd"
    wire_id: ClassVar[int] = 7
    of_any_type: ClassVar[bool] = True
    carries_nonfinite: ClassVar[bool] = True
    level: int = 3
    shuffle: bool = True

    def __post_init__(self) -> None:
        level = as_integer(self.level, "zstd: level")
        if not 1 <= level <= 19:  # higher levels use windows beyond the format's limit
            raise EncodeError(f"zstd: level is {level}; it must be 1 to 19")
        set_fields(self, level=level, shuffle=as_flag(self.shuffle, "zstd: shuffle"))

    def encode(self, values: Array, stream: int) -> Bytes:
        """Encode values as the shuffle flag, one byte, and a frame that states its size."""
        import zstandard

        frame = zstandard.ZstdCompressor(level=self.level).compress(write_content(values, self.shuffle))
        return np.frombuffer(bytes([self.shuffle]) + frame, np.uint8)

    def max_bytes(self, r: int, dtype: np.dtype[Any]) -> int:
        """Return the maximum number of bytes of a section of at most r values of ``dtype``."""
        size = r * dtype.itemsize
        return 1 + size + (size >> 8) + (max(2**17 - size, 0) >> 11)  # ZSTD_compressBound

    @classmethod
    def decode(cls, section: Bytes, r: int, dtype: np.dtype[Any], limits: DecodeLimits) -> Array:
        """Decode a section after its frame's header and blocks have been validated."""
        import zstandard

        from wirecodec.kernels.cpu.coding.zstd_frame import find_end_of_blocks

        if section[0] > 1:
            raise Malformed("zstd-parameter", f"shuffle is {section[0]}; it must be 0 or 1")
        size = r * dtype.itemsize
        frame = section[1:].tobytes()  # a copy, so that the validated bytes are the decompressed ones
        start, longest = _check_header(frame, size)
        end = find_end_of_blocks(np.frombuffer(frame, np.uint8), start, longest)
        if end < 0:
            raise Malformed(
                "zstd-block", "a block is truncated, too long or of a reserved type, or no block is the last"
            )
        if end < len(frame):
            raise Malformed("zstd-trailing", f"{len(frame) - end} bytes after the last block")
        content: bytes | memoryview
        try:
            if size <= longest:
                content = _get_decompressor().decompress(frame)
            else:
                content = _decompress_in_pieces(frame, size)
        except zstandard.ZstdError as error:
            raise Malformed("zstd-content", str(error)) from None
        if len(content) != size:
            raise Malformed("zstd-content", f"{len(content)} bytes for {r} values of {dtype.itemsize} bytes")
        return read_content(content, bool(section[0]), dtype)


def _decompress_in_pieces(frame: bytes, size: int) -> memoryview:
    """Decompress a frame so that libzstd checks the size of each block's content.

    It does not check it if it can write the whole content at once.
    """
    out = np.empty(size, np.uint8)
    reader = _get_decompressor().stream_reader(frame)
    count = reader.readinto(out.data[:-1])
    if count == size - 1:
        count += reader.readinto(out.data[-1:])
    if reader.read(1):  # libzstd does not refuse every block after the last byte
        raise Malformed("zstd-content", f"the content has more than {size} bytes")
    out.flags.writeable = False
    return out[:count].data


_local = threading.local()


def _get_decompressor() -> Any:
    """Return this thread's decompressor, because creating one is slower than decompressing a small frame."""
    import zstandard

    decompressor = getattr(_local, "decompressor", None)
    if decompressor is None:
        decompressor = _local.decompressor = zstandard.ZstdDecompressor()
    return decompressor


def _check_header(frame: bytes, size: int) -> tuple[int, int]:
    """Validate a frame's header, which must state ``size``.

    Returns:
        The offset of the first block, and the maximum size of a block.
    """
    if len(frame) < 5 or frame[:4] != _MAGIC:
        raise Malformed("zstd-frame", "the section does not begin with a frame")
    descriptor = frame[4]
    width = descriptor >> 6  # the content size takes 2^width bytes; for width 0, one byte or none
    single = bool(descriptor & _SINGLE_SEGMENT)
    if descriptor & _UNSUPPORTED_BITS or (width == 0 and not single):
        raise Malformed("zstd-header", f"the descriptor is {descriptor:#04x}; the format excludes it")
    at = 5 if single else 6
    start = at + (1 << width)
    if len(frame) < start:
        raise Malformed("zstd-frame", f"{len(frame)} bytes; the header takes {start}")
    stated = int.from_bytes(frame[at:start], "little") + (256 if width == 1 else 0)
    if stated != size:
        raise Invalid("zstd-size", f"the frame states {stated} bytes, not {size}")
    window = stated
    if not single:
        window = 1 << 10 + (frame[5] >> 3)
        window += (window >> 3) * (frame[5] & 7)
    if window > _MAX_WINDOW:
        raise Invalid("zstd-window", f"the window is {window} bytes; it must be at most {_MAX_WINDOW}")
    return start, min(window, _MAX_BLOCK)
