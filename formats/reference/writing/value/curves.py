"""Headers of the value codecs polyfit and dexpfit: writing."""

from __future__ import annotations

import struct


def write_headers(heads: list[int]) -> bytes:
    """Write the number of pieces, and their heads."""
    return struct.pack(f"<{1 + len(heads)}I", len(heads), *heads)
