"""Launching ``qsgd.cu``, ``offset_float.cu`` and ``sign_scale.cu``: sections of value codecs, and back.

Sections are u8 in the device's memory, of the lengths that the codecs' pages give them; no launch waits for
another's result on the host. What a reader must refuse sets a flag for the caller to look at. Values come and
go as binary32, in their bits, but for those of sign-scale. Where ``count`` is given the values are the first
count[0] of those, and a section has room for all.
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
    "expanded_signs",
    "offset_float",
    "offset_values",
    "qsgd",
    "qsgd_values",
    "sign_scale",
]

_QSGD_HEAD, _OFFSET_HEAD = 2, 3
"""Words before the scales, and before the codes."""
_MOST = 2048
"""Blocks from where on each does more."""


def qsgd(
    device: Device,
    bits: Any,
    n: int,
    bucket: int,
    norm: int,
    largest: float,
    stream: Any,
    count: Any = None,
) -> Any:
    """The section (formats/spec/value/qsgd.md).

    Args:
        device: where.
        bits: (r,) u32, finite binary32 numbers.
        n: bits of a code.
        bucket: values that share a scale.
        norm: 0 for max, 1 for l2.
        largest: at most what a scale of norm l2 may be.
        stream: a u64 that seeds the draws, or (1,) u64 on the device.
        count: see above.
    """
    r = np.uint32(bits.size)
    buckets = blocks_for(bits.size, bucket)
    section = device.empty(_QSGD_HEAD + buckets + packed_words(bits.size, n), np.uint32)
    known = None
    if norm or bucket != PACK_BLOCK:
        known = device.empty(buckets, np.uint32)
        device.clear(known)
    if norm:
        most = np.array([largest], np.float64).view(np.uint64)[0]
        blocks = blocks_for(buckets, THREADS // PACK_LANES)
        device.launch("qsgd", "qsgd_l2_scales", blocks, bits, r, count, np.uint32(bucket), most, known)
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


def qsgd_values(device: Device, section: Any, r: int, n: int, bucket: int) -> tuple[Any, Any]:
    """(r,) u32 bits of a section, head and scales checked; and (1,) u32, whether a code is wrong."""
    out, bad = device.empty(r, np.uint32), device.empty(1, np.uint32)
    device.clear(bad)
    words = section.view(np.uint32)
    scales = words[_QSGD_HEAD : _QSGD_HEAD + blocks_for(r, bucket)]
    codes = words[_QSGD_HEAD + scales.size :]
    numbers = (np.uint32(each) for each in (r, bucket, n))
    device.launch("qsgd", "qsgd_dequantise", blocks_for(r, PACK_BLOCK), codes, *numbers, scales, out, bad)
    return out, bad


@dataclass(frozen=True)
class OffsetFormat:
    """What an offset float is asked for, numbers as the bits of binary32 magnitudes.

    Attributes:
        bits: of a code.
        mantissa: its bits, or None.
        eps, up, down: the least positive, the greatest and the least number, or None.
        largest: the greatest number that the element type holds.
        stochastic: whether values are rounded at random.
    """

    bits: int
    mantissa: int | None
    eps: int | None
    up: int | None
    down: int | None
    largest: int
    stochastic: bool


def offset_float(device: Device, bits: Any, asked: OffsetFormat, stream: Any, count: Any = None) -> Any:
    """The section (formats/spec/value/offset-float.md) of (r,) u32 ``bits`` of finite binary32 numbers.

    ``stream``: as for ``qsgd``.
    """
    r = np.uint32(bits.size)
    section = device.empty(_OFFSET_HEAD + packed_words(bits.size, asked.bits), np.uint32)
    reach, made = device.empty(2, np.uint32), device.empty(4, np.uint32)
    device.clear(reach)
    if asked.up is None or asked.down is None:
        blocks = blocks_for(bits.size, 16 * THREADS, _MOST)
        device.launch("offset_float", "offset_reach", blocks, bits, r, count, reach)
    device.launch(
        "offset_float",
        "offset_choose",
        1,
        bits,
        r,
        count,
        np.uint32(asked.bits),
        np.int32(-1 if asked.mantissa is None else asked.mantissa),
        np.uint32(asked.eps or 0),
        np.uint32(asked.up or 0),
        np.uint32(asked.down or 0),
        np.uint32(asked.up is not None),
        np.uint32(asked.down is not None),
        np.uint32(asked.largest),
        np.uint32(asked.stochastic),
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
        np.uint32(asked.bits),
        np.uint32(asked.stochastic),
        *stream_words(stream),
        made,
        section[_OFFSET_HEAD:],
    )
    return section.view(np.uint8)


def offset_values(
    device: Device, section: Any, r: int, head: tuple[int, int, int, int, int]
) -> tuple[Any, Any]:
    """(r,) u32 bits of a section; and (1,) u32, whether a code is wrong.

    ``head``, checked: bits of a code, mantissa, base, positive and negative codes.
    """
    out, bad = device.empty(r, np.uint32), device.empty(1, np.uint32)
    device.clear(bad)
    codes = section.view(np.uint32)[_OFFSET_HEAD:]
    numbers = (np.uint32(each) for each in (r, *head))
    device.launch("offset_float", "offset_dequantise", blocks_for(r, PACK_BLOCK), codes, *numbers, out, bad)
    return out, bad


def sign_scale(device: Device, values: Any, count: Any = None) -> Any:
    """The section (formats/spec/value/sign-scale.md) of (r,) finite float32 or float64 ``values``."""
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


def expanded_signs(device: Device, signs: Any, r: int, zero: Any, one: Any) -> Any:
    """(r,) words: ``one`` where the bit in u8 ``signs`` is set, ``zero`` elsewhere, both u16, u32 or u64."""
    out = device.empty(r, zero.dtype)
    name = f"expand_u{8 * zero.dtype.itemsize}"
    device.launch("sign_scale", name, blocks_for(r, THREADS), signs, np.uint32(r), zero, one, out)
    return out
