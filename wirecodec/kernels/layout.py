"""Block sizes that the wire format fixes, shared by kernels and codecs."""

from __future__ import annotations

RICE_SPAN = 4096
RICE_BLOCK = 256
RICE_LANES = 8
"""Indices per span, per parameter and per row of lanes (formats/spec/index/rice.md)."""

PACK_BLOCK = 512
PACK_LANES = 16
"""Codes per packed block and per row of lanes (formats/spec/value/qsgd.md)."""

BLOOM_PAD = 8
"""Bytes after a filter in memory; the first 7 copy its start, because windows reach across its end."""

GAP_BLOCK = 256
GAP_PARAMETER_BITS = 5
"""Numbers per parameter of a gap stream, and bits per parameter (formats/spec/index/structured.md)."""

HUFFMAN_SPAN = 4096
HUFFMAN_BITS = 12
"""Indices or codes per span, and bits of the longest code (formats/spec/index/huffman.md)."""

HUFFMAN_KEYS = 4
"""Form of index bytes. Forms 0 to 3 are the m of gap classes (formats/spec/index/huffman.md)."""
HUFFMAN_SYMBOLS = (25, 48, 92, 176, 256)
"""Number of symbols of each form."""

CONTEXT_BLOCK = 64
CONTEXT_PART = 8
CONTEXT_PERIODS = (64, 16_384)
"""Elements per flag, elements per part, and the least and greatest period (formats/spec/index/context.md)."""

TERNARY_BLOCK = 320
TERNARY_DIGITS = 5
"""Values per block of 64 bytes, and digits per byte (formats/spec/value/terngrad.md)."""

SKETCH_CELLS = 2**15
SKETCH_SUMS = 4
"""Cells per sign, and partial sums per bucket (formats/spec/value/sketchml.md)."""

BOUNDED_BLOCK = 2**17
BOUNDED_ROWS = 26
BOUNDED_ESCAPE = 48
"""Greatest number of values per block, rows of frequencies, and the escape symbol
(formats/spec/value/error-bounded.md)."""

PATCH_CLASSES = 64
PATCH_RUN = 16
PATCH_SEGMENTS = 16
"""Classes of elements, elements of which lanes are multiples, and segments of the scale of positions
(formats/spec/patch.md)."""
STEP_BITS = 12
STEP_SYMBOLS = 136
"""Bits of the frequency of a difference's symbol, and number of symbols (formats/spec/patch.md)."""
DIGEST_STRIDE = 0x9E3779B97F4A7C15
DIGEST_FACTORS = 0xBF58476D1CE4E5B9, 0x94D049BB133111EB
"""Factors of digests (formats/spec/patch.md)."""
