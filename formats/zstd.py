"""A Zstandard decompressor for the reference decoder, where this Python has one.

Python has had one of its own since 3.14; before, there is the package ``zstandard``.
"""

from __future__ import annotations

import importlib

from formats.reference.value.zstd import Decompress


def find_decompressor() -> Decompress | None:
    """What gives a frame's content, or None."""
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
