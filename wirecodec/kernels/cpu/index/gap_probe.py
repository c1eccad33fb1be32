"""Estimate of the bits that a support's gaps take as ``huffman`` and as ``rice``, from a sample of blocks.

Only integers are used, so that stride machine makes the same choice.
"""

from __future__ import annotations

import numpy as np

from wirecodec.arrays import Array
from wirecodec.kernels.cpu.jit import inline, kernel
from wirecodec.kernels.cpu.simd.words import leading_zeros

__all__ = ["BLOCK", "estimate_bits"]

U64 = np.uint64

BLOCK = 256
CLASS_BITS = 3
SYMBOLS = 176
"""Gap classes by the first one bit and the 3 bits after it, which are the finest of ``huffman``."""
FRACTION = 10


@inline
def _log2(x: int) -> int:
    """Return ⌊2^10 · log2 x⌋ for 0 < x <= 2^20."""
    whole = 63 - leading_zeros(U64(x))
    mantissa = U64(x) << U64(30 - whole)
    result = whole
    for _ in range(FRACTION):
        mantissa = (mantissa * mantissa) >> U64(30)
        result <<= 1
        if mantissa >> U64(31):
            mantissa >>= U64(1)
            result |= 1
    return result


@kernel
def estimate_bits(indices: Array, blocks: int) -> tuple[int, int]:
    """Estimate the bits of a sample of gaps under ``huffman`` and under ``rice``.

    The estimate for ``huffman`` is the entropy of the gaps' classes plus their extra bits.

    Args:
        indices: (r,) u32, ascending.
        blocks: number of blocks of 256 gaps to sample, evenly spaced; at most r // 256.

    Returns:
        (bits as ``huffman``, bits as ``rice``).
    """
    counts = np.zeros(SYMBOLS, np.int64)
    stride = indices.size // BLOCK // blocks * BLOCK
    rice = 0
    huffman = 0
    for block in range(blocks):
        start = block * stride + 1
        now = indices[start : min(start + BLOCK, indices.size)]
        before = indices[start - 1 : start - 1 + now.size]
        total = np.int64(now[now.size - 1]) - np.int64(before[0]) - now.size
        b = max(0, 62 - leading_zeros(U64(7 * total // (10 * now.size) | 1)))
        best = np.int64(0)
        for step in range(3):  # Three of the four that rice tries; the fourth is rarely best.
            bits = now.size * (b + step + 1)
            for i in range(now.size):
                gap = U64(now[i]) - U64(before[i]) - U64(1)
                bits += np.int64(gap >> U64(b + step))
            best = bits if step == 0 else min(best, bits)
        rice += best
        for i in range(now.size):
            gap = U64(now[i]) - U64(before[i]) - U64(1)
            extra = 63 - leading_zeros(gap | U64(1 << CLASS_BITS)) - CLASS_BITS
            counts[(extra << CLASS_BITS) + np.int64(gap >> U64(extra))] += 1
            huffman += extra
    total = np.int64(0)
    for symbol in range(SYMBOLS):
        total += counts[symbol]
    entropy = 0
    for symbol in range(SYMBOLS):
        if counts[symbol] > 0:
            entropy += counts[symbol] * (_log2(total) - _log2(counts[symbol]))
    return huffman + (entropy >> FRACTION), rice
