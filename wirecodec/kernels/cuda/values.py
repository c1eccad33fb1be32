"""Launch ``qsgd.cu``, ``offset_float.cu`` and ``sign_scale.cu``: sections of value codecs, and back.

Sections are u8 on the device; their lengths are those of the codecs' pages. No launch waits for the host. If
a section is invalid, a decoder sets a flag. Values are raw bits of float32, except those of sign-scale. If
``count`` is given, only the first ``count[0]`` values are encoded, and a section has capacity for all.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from wirecodec.kernels.cuda.device import THREADS, Device, blocks_for
from wirecodec.kernels.cuda.packing import packed_words
from wirecodec.kernels.cuda.prng import stream_words
from wirecodec.kernels.layout import PACK_BLOCK, PACK_LANES

__all__ = [
    "OffsetFormat",
    "decode_offset_float",
    "decode_qsgd",
    "encode_offset_float",
    "encode_qsgd",
    "encode_sign_scale",
    "expand_signs",
]

_QSGD_HEADER, _OFFSET_HEADER = 2, 3
"""u32 words before the scales, and before the codes."""
_MAX_BLOCKS = 2048
"""With more work than this many blocks do, each block does more."""


def encode_qsgd(
    device: Device,
    bits: Any,
    n: int,
    bucket: int,
    norm: int,
    largest: float,
    stream: Any,
    count: Any = None,
) -> Any:
    """Encode a section (formats/spec/value/qsgd.md).

    Args:
        device: where the values are.
        bits: (r,) u32, raw bits of finite float32 numbers.
        n: bits per code.
        bucket: values that share a scale.
        norm: 0 for max, 1 for l2.
        largest: upper bound of a scale of norm l2.
        stream: seeds the draws, a u64 or (1,) u64 on the device.
        count: (1,) u32 on the device, or None.
    """
    r = np.uint32(bits.size)
    buckets = blocks_for(bits.size, bucket)
    section = device.empty(_QSGD_HEADER + buckets + packed_words(bits.size, n), np.uint32)
    known = None
    if norm or bucket != PACK_BLOCK:
        known = device.empty(buckets, np.uint32)
        device.clear(known)
    if norm:
        bound = np.array([largest], np.float64).view(np.uint64)[0]
        blocks = blocks_for(buckets, THREADS // PACK_LANES)
        device.launch("qsgd", "qsgd_l2_scales", blocks, bits, r, count, np.uint32(bucket), bound, known)
    elif known is not None:
        blocks = blocks_for(bits.size, THREADS * PACK_LANES)
        device.launch("qsgd", "qsgd_max_scales", blocks, bits, r, count, np.uint32(bucket), known)
    device.launch(
        "qsgd",
        "qsgd_quantise",
        blocks_for(bits.size, PACK_BLOCK),
        bits,
        r,
        count,
        *(np.uint32(each) for each in (bucket, n, norm)),
        *stream_words(stream),
        known,
        section,
    )
    return section.view(np.uint8)


def decode_qsgd(device: Device, section: Any, r: int, n: int, bucket: int) -> tuple[Any, Any]:
    """Decode a section whose header and scales were checked.

    Returns (r,) u32 raw bits of float32, and (1,) u32, whether a code is invalid.
    """
    out, bad = device.empty(r, np.uint32), device.empty(1, np.uint32)
    device.clear(bad)
    words = section.view(np.uint32)
    scales = words[_QSGD_HEADER : _QSGD_HEADER + blocks_for(r, bucket)]
    codes = words[_QSGD_HEADER + scales.size :]
    numbers = (np.uint32(each) for each in (r, bucket, n))
    device.launch("qsgd", "qsgd_dequantise", blocks_for(r, PACK_BLOCK), codes, *numbers, scales, out, bad)
    return out, bad


@dataclass(frozen=True)
class OffsetFormat:
    """Parameters of an offset-float section; numbers are raw bits of float32 magnitudes.

    Attributes:
        bits: bits per code.
        mantissa: mantissa bits of a code, or None to choose them.
        eps: smallest positive number, or None.
        up: largest number, or None.
        down: smallest number, or None.
        largest: largest finite number of the element type.
        stochastic: whether values are rounded at random.
    """

    bits: int
    mantissa: int | None
    eps: int | None
    up: int | None
    down: int | None
    largest: int
    stochastic: bool


def encode_offset_float(
    device: Device, bits: Any, request: OffsetFormat, stream: Any, count: Any = None
) -> Any:
    """Encode (r,) u32 raw bits of finite float32 numbers (formats/spec/value/offset-float.md).

    ``stream`` and ``count`` are those of ``encode_qsgd``.
    """
    r = np.uint32(bits.size)
    section = device.empty(_OFFSET_HEADER + packed_words(bits.size, request.bits), np.uint32)
    reach, made = device.empty(2, np.uint32), device.empty(4, np.uint32)
    device.clear(reach)
    if request.up is None or request.down is None:
        blocks = blocks_for(bits.size, 16 * THREADS, _MAX_BLOCKS)
        device.launch("offset_float", "offset_reach", blocks, bits, r, count, reach)
    device.launch(
        "offset_float",
        "offset_choose",
        1,
        bits,
        r,
        count,
        np.uint32(request.bits),
        np.int32(-1 if request.mantissa is None else request.mantissa),
        np.uint32(request.eps or 0),
        np.uint32(request.up or 0),
        np.uint32(request.down or 0),
        np.uint32(request.up is not None),
        np.uint32(request.down is not None),
        np.uint32(request.largest),
        np.uint32(request.stochastic),
        reach,
        made,
        section,
    )
    device.launch(
        "offset_float",
        "offset_quantise",
        blocks_for(bits.size, PACK_BLOCK),
        bits,
        r,
        count,
        np.uint32(request.bits),
        np.uint32(request.stochastic),
        *stream_words(stream),
        made,
        section[_OFFSET_HEADER:],
    )
    return section.view(np.uint8)


def decode_offset_float(
    device: Device, section: Any, r: int, header: tuple[int, int, int, int, int]
) -> tuple[Any, Any]:
    """Decode a section whose header was checked.

    ``header`` is the bits per code, mantissa, base, and the numbers of positive and negative codes. Returns
    (r,) u32 raw bits of float32, and (1,) u32, whether a code is invalid.
    """
    out, bad = device.empty(r, np.uint32), device.empty(1, np.uint32)
    device.clear(bad)
    codes = section.view(np.uint32)[_OFFSET_HEADER:]
    numbers = (np.uint32(each) for each in (r, *header))
    device.launch("offset_float", "offset_dequantise", blocks_for(r, PACK_BLOCK), codes, *numbers, out, bad)
    return out, bad


def encode_sign_scale(device: Device, values: Any, count: Any = None) -> Any:
    """Encode (r,) finite float32 or float64 ``values`` (formats/spec/value/sign-scale.md)."""
    width = values.dtype.itemsize
    r = np.uint32(values.size)
    section = device.empty(width // 4 + blocks_for(values.size, 32), np.uint32)
    alike = device.put(np.ones(1, np.uint32))
    bits = values.view(f"u{width}")
    blocks = blocks_for(values.size, THREADS)
    device.launch("sign_scale", f"signs_u{8 * width}", blocks, bits, r, count, section[width // 4 :], alike)
    scale = section[: width // 4].view(f"u{width}")
    device.launch("sign_scale", f"mean_f{8 * width}", 1, values, r, count, alike, scale)
    return section.view(np.uint8)[: width + -(-values.size // 8)]


def expand_signs(device: Device, signs: Any, r: int, zero: Any, one: Any) -> Any:
    """Return (r,) raw bits: ``one`` for each bit that is set in u8 ``signs``, else ``zero``.

    Both u16, u32 or u64.
    """
    out = device.empty(r, zero.dtype)
    name = f"expand_u{8 * zero.dtype.itemsize}"
    device.launch("sign_scale", name, blocks_for(r, THREADS), signs, np.uint32(r), zero, one, out)
    return out
