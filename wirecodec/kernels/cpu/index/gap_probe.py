"""Whether a support's gaps suit ``huffman``: a lower bound of its bytes, and an estimate of its bits.

The estimate is from a sample of blocks, for ``huffman`` and for ``rice``. Only integers are used, so that
every machine makes the same choice.
"""

from __future__ import annotations

import numpy as np

from wirecodec.arrays import Array
from wirecodec.kernels.compiler.jit import inline, kernel
from wirecodec.kernels.cpu.index.huffman import FINEST, class_of, extra_bits, smallest_gap
from wirecodec.kernels.cpu.simd.words import leading_zeros

U64 = np.uint64

BLOCK = 256
MIN_PROBED_BLOCKS = 16
PROBE_INTERVAL = 64
"""One block of gaps in 64 is sampled, but at least 16."""
SYMBOLS = 176
"""The finest gap classes of ``huffman``."""
HEADER_BYTES = 3
FRACTION = 10
ROUNDED_DOWN = 2
"""Steps of 2^-10 that cover the rounding of two logarithms."""


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
def bound_bytes(indices: Array) -> int:
    """Return a lower bound of the bytes that the gaps take as ``huffman``: the entropy, in the best form."""
    counts = np.zeros(SYMBOLS, np.int64)
    coarse = np.empty(SYMBOLS, np.int64)
    for i in range(indices.size):
        gap = U64(indices[0]) if i == 0 else U64(indices[i]) - U64(indices[i - 1]) - U64(1)
        counts[class_of(gap, U64(FINEST))] += 1
    best = np.int64(0)
    for m in range(FINEST + 1):
        first, last, extra = np.int64(-1), np.int64(0), np.int64(0)
        for symbol in range(SYMBOLS):
            coarse[symbol] = 0
        for symbol in range(SYMBOLS):
            if counts[symbol] > 0:
                gap = smallest_gap(symbol)
                last = np.int64(class_of(gap, U64(m)))
                first = last if first < 0 else first
                coarse[last] += counts[symbol]
                extra += counts[symbol] * np.int64(extra_bits(gap, U64(m)))
        bits = extra + _measure_entropy(coarse, ROUNDED_DOWN)
        size = HEADER_BYTES + ((last - first + 2) >> 1 if last > first else 0) + ((bits + 7) >> 3)
        best = size if m == 0 else min(best, size)
    return best


@inline
def _measure_entropy(counts: Array, less: int) -> int:
    """Return the bits of (176,) i64 classes as codes of their entropy, each ``less`` / 2^10 bits shorter."""
    total = np.int64(0)
    for symbol in range(SYMBOLS):
        total += counts[symbol]
    entropy = 0
    for symbol in range(SYMBOLS):
        if counts[symbol] > 0:
            entropy += counts[symbol] * max(0, _log2(total) - _log2(counts[symbol]) - less)
    return entropy >> FRACTION


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
            counts[class_of(gap, U64(FINEST))] += 1
            huffman += np.int64(extra_bits(gap, U64(FINEST)))
    return huffman + _measure_entropy(counts, 0), rice


def may_suit_huffman(indices: Array, rival: int) -> bool:
    """Return whether ``huffman`` may be the smallest codec, and save 0.7 % over rice.

    Up to 16 blocks of 256 indices are bounded, more only sampled. Fewer than 256 indices are not compared
    with rice. Python calls this function, and kernels contain it.

    Args:
        indices: (r,) u32, ascending, r > 0.
        rival: bytes of the smallest section that is known.
    """
    blocks = indices.size // BLOCK
    if blocks <= MIN_PROBED_BLOCKS and bound_bytes(indices) >= rival:
        return False
    if blocks == 0:
        return True
    blocks = min(blocks, max(MIN_PROBED_BLOCKS, blocks // PROBE_INTERVAL))
    huffman_bits, rice_bits = estimate_bits(indices, blocks)
    return 1000 * huffman_bits < 993 * rice_bits
