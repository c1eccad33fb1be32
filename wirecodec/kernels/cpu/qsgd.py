"""The loops of QSGD (formats/spec/value/qsgd.md): scales, codes, and levels.

All arithmetic is binary32 with one rounding an operation, in the order of the page, so every backend writes
the same bytes.
"""

from __future__ import annotations

import numpy as np

from wirecodec.arrays import Array
from wirecodec.kernels.cpu.counter import draw16
from wirecodec.kernels.cpu.jit import kernel
from wirecodec.kernels.cpu.words import f32_of_bits
from wirecodec.kernels.layout import PACK_LANES

__all__ = [
    "BAD_CODE",
    "dequantise",
    "l2_scales",
    "max_scales",
    "quantise",
]

U32 = np.uint32
F32 = np.float32

BAD_CODE = 1


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
