"""Sections on the device: the codecs that have kernels, each with how it is called.

index   raw-index  bitmap  rice  elias-fano  bloom (policies p0 and p1)
value   raw (of every type)  qsgd  offset-float  sign-scale
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Any

import numpy as np

from wirecodec.gpu import bloom
from wirecodec.gpu.support import Refused, has_nonfinite
from wirecodec.index.bitmap import Bitmap, bitmap_bytes
from wirecodec.index.bloom import Bloom
from wirecodec.index.elias_fano import EliasFano
from wirecodec.index.raw import RawIndex
from wirecodec.index.rice import Rice
from wirecodec.kernels.cuda import bits, elements, spans, values
from wirecodec.kernels.cuda.device import Device
from wirecodec.value.offset_float import OffsetFloat
from wirecodec.value.qsgd import QSGD
from wirecodec.value.raw import Raw, RawBfloat16, RawFloat16
from wirecodec.value.sign_scale import SignScale
from wirecodec.value.single import LARGEST

__all__ = ["approximated", "has_kernels", "index_section", "value_section"]

_INDEX = (RawIndex, Bitmap, Rice, EliasFano, Bloom)
_VALUE = (Raw, QSGD, OffsetFloat, SignScale)
_NORMS = {"max": 0, "l2": 1}


def has_kernels(index: Any, value: Any) -> bool:
    """Whether both codecs of a scheme work on the device."""
    if isinstance(index, Bloom) and not bloom.has_kernels(index):
        return False
    return type(index) in _INDEX and type(value) in _VALUE


def approximated(
    device: Device, codec: Bloom, indices: Any, base: int, d: int, stream: int
) -> tuple[Any, Any]:
    """As ``index_section``, and the elements that readers will find, counted from the beginning, too."""
    local = bits.counted_from(device, indices, base, np.uint32) if base else indices
    section, found = bloom.approximated(device, codec, local, d, stream)
    return section, bits.counted_from(device, found, -base % 2**32, np.uint32) if base else found


def index_section(device: Device, codec: Any, indices: Any, base: int, d: int) -> Any:
    """The section, u8, of (r,) u32 ``indices`` that are counted from the tensor's beginning, 0 < r < d.

    Of a codec that is not lossy.
    """
    if isinstance(codec, RawIndex):
        narrow = np.uint16 if d <= 2**16 else np.uint32
        return bits.counted_from(device, indices, base, narrow).view(np.uint8)
    local = bits.counted_from(device, indices, base, np.uint32) if base else indices
    if isinstance(codec, Bitmap):
        return bits.bitmap_of(device, local, d).view(np.uint8)[: bitmap_bytes(d)]
    coder = spans.rice if isinstance(codec, Rice) else spans.elias_fano
    words, taken = coder(device, local, d)
    return words[: int(device.get(taken)[0])].view(np.uint8)


@dataclass(frozen=True, eq=False)
class _Coded:
    """A section, the id it is read by, and the flags that must say ``NOWHERE``."""

    wire_id: int
    section: Any
    flags: tuple[Any, ...] = ()


def value_section(
    device: Device, codec: Any, words: Any, dtype: np.dtype[Any], stream: int
) -> tuple[int, Any]:
    """The wire id and the section, u8, of (r,) ``words`` of an element type; no section where r = 0.

    Refused where a value cannot be carried.
    """
    if not codec_carries_all(codec) and words.size and has_nonfinite(device, words, dtype):
        raise Refused
    if isinstance(codec, Raw):
        coded = _raw(device, codec, words, dtype)
    elif words.size == 0:
        return codec.wire_id, words.view(np.uint8)
    elif isinstance(codec, SignScale):
        coded = _sign_scale(device, codec, words, dtype)
    else:
        single, flag = elements.as_single(device, words, dtype)
        coder = _qsgd if isinstance(codec, QSGD) else _offset_float
        coded = _Coded(codec.wire_id, coder(device, codec, single, dtype, stream), (flag,))
    if any(int(device.get(flag)[0]) != elements.NOWHERE for flag in coded.flags):
        raise Refused
    return coded.wire_id, coded.section


def codec_carries_all(codec: Any) -> bool:
    """Whether NaN and Inf come back; ``Raw`` stands for codecs that all do."""
    return isinstance(codec, Raw) or bool(codec.carries_nonfinite)


def _raw(device: Device, codec: Raw, words: Any, dtype: np.dtype[Any]) -> _Coded:
    if codec.dtype is None or dtype.itemsize == 2:
        return _Coded(Raw.wire_id, words.view(np.uint8))
    stored = RawFloat16 if codec.dtype == "float16" else RawBfloat16
    narrow, over = elements.narrowed(device, words, stored.stored)
    return _Coded(stored.wire_id, narrow.view(np.uint8), (over,))


def _sign_scale(device: Device, codec: SignScale, words: Any, dtype: np.dtype[Any]) -> _Coded:
    return _Coded(codec.wire_id, values.sign_scale(device, elements.widened(device, words, dtype)))


def _qsgd(device: Device, codec: QSGD, single: Any, dtype: np.dtype[Any], stream: int) -> Any:
    norm, largest = _NORMS[codec.norm], LARGEST[dtype.name]
    return values.qsgd(device, single, codec.bits, codec.bucket, norm, largest, stream)


def _offset_float(device: Device, codec: OffsetFloat, single: Any, dtype: np.dtype[Any], stream: int) -> Any:
    eps, up, down = (None if x is None else _magnitude(x) for x in (codec.eps, codec.max, codec.min))
    largest, stochastic = _magnitude(LARGEST[dtype.name]), codec.rounding == "stochastic"
    asked = values.OffsetFormat(codec.bits, codec.mantissa, eps, up, down, largest, stochastic)
    return values.offset_float(device, single, asked, stream)


def _magnitude(x: float) -> int:
    """The bits of |x|, a binary32 number."""
    return int.from_bytes(struct.pack("<f", abs(x)), "little")
