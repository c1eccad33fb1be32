"""The block sizes that the wire format fixes, for kernels and for the codecs around them."""

from __future__ import annotations

__all__ = ["BLOOM_PAD", "PACK_BLOCK", "PACK_LANES", "RICE_BLOCK", "RICE_LANES", "RICE_SPAN"]

BLOOM_PAD = 8
"""Bytes after a filter in memory, the first 7 a copy of its start: windows reach across its end."""

RICE_SPAN = 4096
RICE_BLOCK = 256
RICE_LANES = 8
"""Indices that decode alone, that share a parameter, that lie side by side (formats/spec/index/rice.md)."""

PACK_BLOCK = 512
PACK_LANES = 16
"""Codes that are packed together, and that lie side by side (formats/spec/value/qsgd.md)."""
