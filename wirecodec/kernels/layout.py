"""The block sizes that the wire format fixes, for kernels and for the codecs around them."""

from __future__ import annotations

__all__ = [
    "BLOOM_PAD",
    "BOUNDED_BLOCK",
    "BOUNDED_ESCAPE",
    "BOUNDED_ROWS",
    "CONTEXT_BLOCK",
    "CONTEXT_PART",
    "CONTEXT_PERIODS",
    "GAP_BLOCK",
    "GAP_PARAMETER_BITS",
    "HUFFMAN_BITS",
    "HUFFMAN_SPAN",
    "PACK_BLOCK",
    "PACK_LANES",
    "RICE_BLOCK",
    "RICE_LANES",
    "RICE_SPAN",
    "SKETCH_CELLS",
    "SKETCH_SUMS",
    "TERNARY_BLOCK",
    "TERNARY_DIGITS",
]

RICE_SPAN = 4096
RICE_BLOCK = 256
RICE_LANES = 8
"""Indices that decode alone, that share a parameter, that lie side by side (formats/spec/index/rice.md)."""

PACK_BLOCK = 512
PACK_LANES = 16
"""Codes that are packed together, and that lie side by side (formats/spec/value/qsgd.md)."""

BLOOM_PAD = 8
"""Bytes after a filter in memory, the first 7 a copy of its start: windows reach across its end."""

GAP_BLOCK = 256
GAP_PARAMETER_BITS = 5
"""Numbers of a gap stream that share a parameter, and its width (formats/spec/index/structured.md)."""

HUFFMAN_SPAN = 4096
HUFFMAN_BITS = 12
"""Indices or codes that decode alone, and the longest code (formats/spec/index/huffman.md)."""

CONTEXT_BLOCK = 64
CONTEXT_PART = 8
CONTEXT_PERIODS = (64, 16_384)
"""Elements under a flag, of each part of them, and the periods there are (formats/spec/index/context.md)."""

TERNARY_BLOCK = 320
TERNARY_DIGITS = 5
"""Values whose digits are dealt to 64 bytes, and digits of a byte (formats/spec/value/terngrad.md)."""
SKETCH_CELLS = 2**15
SKETCH_SUMS = 4
"""Cells of each sign, and partial sums of a bucket (formats/spec/value/sketchml.md)."""
BOUNDED_BLOCK = 2**17
BOUNDED_ROWS = 26
BOUNDED_ESCAPE = 48
"""Values that decode alone, at most; rows of frequencies; the symbol that stands for none
(formats/spec/value/error-bounded.md)."""
