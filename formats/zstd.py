"""A Zstandard decompressor for the reference decoder, if this Python has one.

Python 3.14 and later have one in the standard library. Earlier versions use the package ``zstandard``. The
frame is passed in two pieces, because libzstd does not check the size of each block's content if it gets all
of the frame at once (spec/value/zstd.md).
"""

from __future__ import annotations

import importlib
from typing import Any

from formats.reference.value.zstd import Decompress


def find_decompressor() -> Decompress | None:
    """Return a function that decompresses a frame, or None if no decompressor is installed."""
    try:
        module = importlib.import_module("compression.zstd")
        return lambda frame, size: _in_pieces(module.ZstdDecompressor(), frame)
    except ImportError:
        pass
    try:
        package = importlib.import_module("zstandard")
        return lambda frame, size: _in_pieces(package.ZstdDecompressor().decompressobj(), frame)
    except ImportError:
        return None


def _in_pieces(decompressor: Any, frame: bytes) -> bytes:
    return bytes(decompressor.decompress(frame[:-1]) + decompressor.decompress(frame[-1:]))
