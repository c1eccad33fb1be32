"""The loops of QSGD (formats/spec/value/qsgd.md): scales, levels, and codes in 16 vertical lanes.

All arithmetic is binary32 with one rounding an operation, in the order of the page, so every backend writes
the same bytes.
"""

from __future__ import annotations

import numpy as np

from wirecodec.arrays import Array
from wirecodec.kernels.cpu.counter import draw16
from wirecodec.kernels.cpu.jit import kernel
from wirecodec.kernels.cpu.words import f32_of_bits
from wirecodec.kernels.layout import PACK_BLOCK, PACK_LANES

__all__ = [
    "BAD_CODE",
    "BAD_PADDING",
    "dequantise",
    "l2_scales",
    "max_scales",
    "pack",
    "quantise",
    "unpack",
]

U32 = np.uint32
U64 = np.uint64
F32 = np.float32

BAD_PADDING, BAD_CODE = 1, 2


@kernel
def max_scales(bits: Array, bucket: int, scales: Array) -> None:
    """The largest |x| of each bucket; ``bits`` are binary32 bits."""
    for n in range(scales.size):
        part = bits[n * bucket : (n + 1) * bucket]
        top = U32(0)
        for i in range(part.size):
            top = max(top, U32(part[i] & U32(0x7FFFFFFF)))
        scales[n] = f32_of_bits(top)


@kernel
def l2_scales(x: Array, bucket: int, largest: float, scales: Array) -> None:
    """The l2 norm of each bucket of float32 ``x``, summed in the page's order, at most ``largest``."""
    lanes = np.empty(PACK_LANES, np.float64)
    for n in range(scales.size):
        part = x[n * bucket : (n + 1) * bucket]
        lanes[:] = 0.0
        for i in range(part.size):
            v = np.float64(part[i])
            lanes[i & 15] += v * v
        for width in (8, 4, 2, 1):
            for j in range(width):
                lanes[j] += lanes[j + width]
        scales[n] = F32(min(np.sqrt(lanes[0]), largest))


@kernel
def quantise(
    x: Array, bucket: int, levels: int, scales: Array, low: np.uint32, high: np.uint32, codes: Array
) -> None:
    """The codes (u8) of float32 values, as the page writes them.

    Args:
        x: (r,) float32.
        bucket: values that share a scale.
        levels: s.
        scales: (⌈r/bucket⌉,) float32; those below 2^-100 are set to 0, their codes to the middle one.
        low, high: the halves of the chunk's stream.
        codes: (r,), written.
    """
    for n in range(scales.size):
        start = n * bucket
        stop = min(start + bucket, x.size)
        if scales[n] < F32(2.0**-100):
            scales[n] = F32(0)
            codes[start:stop] = levels
            continue
        inverse = F32(levels * 65536) / scales[n]
        for p in range(start, stop):
            t = np.int64(np.int32(x[p] * inverse))
            q = (t + draw16(low, high, p)) >> 16
            codes[p] = np.uint8(min(max(q, -levels), levels) + levels)


@kernel
def pack(codes: Array, n: int, words: Array) -> None:
    """n-bit codes (u8) into zeroed u32 ``words``: full blocks in lanes, the rest as one bit stream."""
    full = codes.size // PACK_BLOCK
    for block in range(full):
        source = block * PACK_BLOCK
        target = block * PACK_LANES * n
        for row in range(32):
            bit = row * n
            word = target + PACK_LANES * (bit >> 5)
            shift = U32(bit & 31)
            for lane in range(PACK_LANES):
                words[word + lane] |= U32(codes[source + row * PACK_LANES + lane]) << shift
            if (bit & 31) + n > 32:
                for lane in range(PACK_LANES):
                    words[word + PACK_LANES + lane] |= U32(codes[source + row * PACK_LANES + lane]) >> (
                        U32(32) - shift
                    )
    start = full * PACK_LANES * n
    for i in range(full * PACK_BLOCK, codes.size):
        bit = (i - full * PACK_BLOCK) * n
        word = start + (bit >> 5)
        code = U64(codes[i]) << U64(bit & 31)
        words[word] |= U32(code & U64(0xFFFFFFFF))
        if (bit & 31) + n > 32:
            words[word + 1] |= U32(code >> U64(32))


@kernel
def unpack(words: Array, n: int, codes: Array) -> int:
    """n-bit codes (u8) from u32 ``words``; 0, or BAD_PADDING where a bit after the last code is set."""
    full = codes.size // PACK_BLOCK
    mask = U32((1 << n) - 1)
    for block in range(full):
        source = block * PACK_LANES * n
        target = block * PACK_BLOCK
        for row in range(32):
            bit = row * n
            word = source + PACK_LANES * (bit >> 5)
            shift = U32(bit & 31)
            if (bit & 31) + n > 32:
                for lane in range(PACK_LANES):
                    low = words[word + lane] >> shift
                    codes[target + row * PACK_LANES + lane] = (
                        low | (words[word + PACK_LANES + lane] << (U32(32) - shift))
                    ) & mask
            else:
                for lane in range(PACK_LANES):
                    codes[target + row * PACK_LANES + lane] = (words[word + lane] >> shift) & mask
    start = full * PACK_LANES * n
    rest = codes.size - full * PACK_BLOCK
    for i in range(rest):
        bit = i * n
        word = start + (bit >> 5)
        code = U64(words[word]) >> U64(bit & 31)
        if (bit & 31) + n > 32:
            code |= U64(words[word + 1]) << U64(32 - (bit & 31))
        codes[full * PACK_BLOCK + i] = code & U64(mask)
    used = (rest * n) & 31
    return BAD_PADDING if used and words[words.size - 1] >> U32(used) else 0


@kernel
def dequantise(codes: Array, bucket: int, levels: int, scales: Array, out: Array) -> int:
    """The float32 values of codes; 0, or BAD_CODE.

    Args:
        codes: (r,) u8.
        bucket: values that share a scale.
        levels: s.
        scales: (⌈r/bucket⌉,) float32, checked.
        out: (r,) float32, written.
    """
    bad = False
    for n in range(scales.size):
        scale = scales[n]
        step = scale / F32(levels)
        part = codes[n * bucket : (n + 1) * bucket]
        to = out[n * bucket : (n + 1) * bucket]
        empty = scale == F32(0)
        for i in range(part.size):
            q = np.int32(part[i]) - np.int32(levels)
            bad |= q > levels or (empty and q != 0)
            v = F32(q) * step
            v = scale if q == levels else v
            to[i] = -scale if q == -levels else v
    return BAD_CODE if bad else 0
