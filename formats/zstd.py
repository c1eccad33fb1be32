"""A Zstandard decompressor for the reference decoder, if this Python has one.

Python 3.14 and later have one in the standard library. Earlier versions use the package ``zstandard``.
"""

from __future__ import annotations

import importlib

from formats.reference.value.zstd import Decompress


def find_decompressor() -> Decompress | None:
    """Return a function that decompresses a frame, or None if no decompressor is installed."""
    try:
        module = importlib.import_module("compression.zstd")
        return lambda frame, size: bytes(module.decompress(frame))
    except ImportError:
        pass
    try:
        package = importlib.import_module("zstandard")
        return lambda frame, size: bytes(package.ZstdDecompressor().decompress(frame))
    except ImportError:
        return None
