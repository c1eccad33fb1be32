"""Launch ``offset_float.cu``: values to a section, and back (formats/spec/value/offset-float.md).

A section is u8 on the device; its length is that of the page. Values are raw bits of float32. No launch waits
for the host. If a section is invalid, ``decode`` sets a flag.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from wirecodec.kernels.cuda.device import THREADS, Device, blocks_for
from wirecodec.kernels.cuda.packing import packed_words
from wirecodec.kernels.cuda.prng import stream_words
from wirecodec.kernels.layout import PACK_BLOCK

_HEADER = 3
"""u32 words before the codes."""
_MAX_BLOCKS = 2048
"""With more work than this many blocks do, each block does more."""


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


def encode(device: Device, bits: Any, request: OffsetFormat, stream: int) -> Any:
    """Encode values as a section.

    Args:
        device: where the values are.
        bits: (r,) u32, raw bits of finite float32 numbers.
        request: the section's parameters.
        stream: a u64 that seeds the draws.
    """
    r = np.uint32(bits.size)
    section = device.empty(_HEADER + packed_words(bits.size, request.bits), np.uint32)
    reach, made = device.empty(2, np.uint32), device.empty(4, np.uint32)
    device.clear(reach)
    if request.up is None or request.down is None:
        blocks = blocks_for(bits.size, 16 * THREADS, _MAX_BLOCKS)
        device.launch("offset_float", "offset_reach", blocks, bits, r, reach)
    device.launch(
        "offset_float",
        "offset_choose",
        1,
        bits,
        r,
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
        np.uint32(request.bits),
        np.uint32(request.stochastic),
        *stream_words(stream),
        made,
        section[_HEADER:],
    )
    return section.view(np.uint8)


def decode(device: Device, section: Any, r: int, header: tuple[int, int, int, int, int]) -> tuple[Any, Any]:
    """Decode a section whose header was checked.

    ``header`` is the bits per code, mantissa, base, and the numbers of positive and negative codes. Returns
    (r,) u32 raw bits of float32, and (1,) u32, whether a code is invalid.
    """
    out, bad = device.empty(r, np.uint32), device.empty(1, np.uint32)
    device.clear(bad)
    codes = section.view(np.uint32)[_HEADER:]
    numbers = (np.uint32(each) for each in (r, *header))
    device.launch("offset_float", "offset_dequantise", blocks_for(r, PACK_BLOCK), codes, *numbers, out, bad)
    return out, bad
