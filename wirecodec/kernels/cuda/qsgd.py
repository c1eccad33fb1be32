"""Launch ``qsgd.cu``: values to a section, and back (formats/spec/value/qsgd.md).

A section is u8 on the device; its length is that of the page. Values are raw bits of float32. No launch waits
for the host. If a section is invalid, ``decode`` sets a flag.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from wirecodec.kernels.cuda.device import THREADS, Device, blocks_for
from wirecodec.kernels.cuda.packing import packed_words
from wirecodec.kernels.cuda.prng import stream_words
from wirecodec.kernels.layout import PACK_BLOCK, PACK_LANES

_HEADER = 2
"""u32 words before the scales."""


def encode(device: Device, bits: Any, n: int, bucket: int, norm: int, largest: float, stream: int) -> Any:
    """Encode values as a section.

    Args:
        device: where the values are.
        bits: (r,) u32, raw bits of finite float32 numbers.
        n: bits per code.
        bucket: values that share a scale.
        norm: 0 for max, 1 for l2.
        largest: upper bound of a scale of norm l2.
        stream: a u64 that seeds the draws.
    """
    r = np.uint32(bits.size)
    buckets = blocks_for(bits.size, bucket)
    section = device.empty(_HEADER + buckets + packed_words(bits.size, n), np.uint32)
    known = None
    if norm or bucket != PACK_BLOCK:
        known = device.empty(buckets, np.uint32)
        device.clear(known)
    if norm:
        bound = np.array([largest], np.float64).view(np.uint64)[0]
        blocks = blocks_for(buckets, THREADS // PACK_LANES)
        device.launch("qsgd", "qsgd_l2_scales", blocks, bits, r, np.uint32(bucket), bound, known)
    elif known is not None:
        blocks = blocks_for(bits.size, THREADS * PACK_LANES)
        device.launch("qsgd", "qsgd_max_scales", blocks, bits, r, np.uint32(bucket), known)
    device.launch(
        "qsgd",
        "qsgd_quantise",
        blocks_for(bits.size, PACK_BLOCK),
        bits,
        r,
        *(np.uint32(each) for each in (bucket, n, norm)),
        *stream_words(stream),
        known,
        section,
    )
    return section.view(np.uint8)


def decode(device: Device, section: Any, r: int, n: int, bucket: int) -> tuple[Any, Any]:
    """Decode a section whose header and scales were checked.

    Returns (r,) u32 raw bits of float32, and (1,) u32, whether a code is invalid.
    """
    out, bad = device.empty(r, np.uint32), device.empty(1, np.uint32)
    device.clear(bad)
    words = section.view(np.uint32)
    scales = words[_HEADER : _HEADER + blocks_for(r, bucket)]
    codes = words[_HEADER + scales.size :]
    numbers = (np.uint32(each) for each in (r, bucket, n))
    device.launch("qsgd", "qsgd_dequantise", blocks_for(r, PACK_BLOCK), codes, *numbers, scales, out, bad)
    return out, bad
