"""Sections on the device: the codecs that have kernels, each with how it is called.

index   raw-index  bitmap  rice  elias-fano  bloom (policies p0 and p1)
value   raw (of every type)  qsgd  offset-float  sign-scale

``coded_index`` and ``coded_values`` wait for nothing. Where ``count`` is given, (1,) u32 on the device, they
code the first so many of what they are given, and sections have room for all of it.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Any

import numpy as np

from wirecodec.gpu import bloom
from wirecodec.gpu.support import Refused
from wirecodec.index.bitmap import Bitmap, bitmap_bytes
from wirecodec.index.bloom import Bloom
from wirecodec.index.elias_fano import EliasFano
from wirecodec.index.raw import RawIndex
from wirecodec.index.rice import Rice
from wirecodec.kernels.cuda import bits, elements, spans, values
from wirecodec.kernels.cuda.device import Device
from wirecodec.kernels.cuda.select import infinity_of
from wirecodec.value.float32_convert import MAX_FLOAT32
from wirecodec.value.offset_float import OffsetFloat
from wirecodec.value.qsgd import QSGD
from wirecodec.value.raw import Raw, RawBfloat16, RawFloat16
from wirecodec.value.sign_scale import SignScale

__all__ = [
    "Coded",
    "approximated",
    "coded_index",
    "coded_values",
    "has_kernels",
    "index_section",
    "value_section",
    "wire_id",
]

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
    section, taken = coded_index(device, codec, indices, base, d)
    return section if taken is None else section[: 4 * int(device.get(taken)[0])]


def coded_index(
    device: Device, codec: Any, indices: Any, base: int, d: int, count: Any = None
) -> tuple[Any, Any]:
    """The same, and (1,) u32, the words of it that count; None where its length follows from r and d."""
    if isinstance(codec, RawIndex):
        narrow = np.uint16 if d <= 2**16 else np.uint32
        return bits.counted_from(device, indices, base, narrow, count).view(np.uint8), None
    local = bits.counted_from(device, indices, base, np.uint32, count) if base else indices
    if isinstance(codec, Bitmap):
        return bits.bitmap_of(device, local, d, count).view(np.uint8)[: bitmap_bytes(d)], None
    coder = spans.rice if isinstance(codec, Rice) else spans.elias_fano
    words, taken = coder(device, local, d, count)
    return words.view(np.uint8), taken


@dataclass(frozen=True, eq=False)
class Coded:
    """A section of values, the id it is read by, and the flags that must say ``NOWHERE``."""

    wire_id: int
    section: Any
    flags: tuple[Any, ...] = ()


def value_section(
    device: Device, codec: Any, words: Any, dtype: np.dtype[Any], stream: int
) -> tuple[int, Any]:
    """The wire id and the section, u8, of (r,) ``words`` of an element type; no section where r = 0.

    Refused where a value cannot be carried.
    """
    coded = coded_values(device, codec, words, dtype, stream)
    if any(int(device.get(flag)[0]) != elements.NOWHERE for flag in coded.flags):
        raise Refused
    return coded.wire_id, coded.section


def coded_values(
    device: Device, codec: Any, words: Any, dtype: np.dtype[Any], stream: Any, count: Any = None
) -> Coded:
    """The same, with what tells whether all values can be carried.

    ``stream`` seeds the draws, a u64 or (1,) u64 on the device.
    """
    if isinstance(codec, Raw):
        return _raw(device, codec, words, dtype, count)
    if words.size == 0:
        return Coded(codec.wire_id, words.view(np.uint8))
    strange = bits.nonfinite(device, words, infinity_of(dtype), count)
    if isinstance(codec, SignScale):
        section = values.sign_scale(device, elements.widened(device, words, dtype, count), count)
        return Coded(codec.wire_id, section, (strange,))
    single, over = elements.as_single(device, words, dtype, count)
    coder = _qsgd if isinstance(codec, QSGD) else _offset_float
    return Coded(codec.wire_id, coder(device, codec, single, dtype, stream, count), (strange, over))


def wire_id(codec: Any, dtype: np.dtype[Any]) -> int:
    """Of what a codec writes for an element type."""
    if not isinstance(codec, Raw):
        return int(codec.wire_id)
    return (_stored(codec, dtype) or Raw).wire_id


def _stored(codec: Raw, dtype: np.dtype[Any]) -> type[RawFloat16] | type[RawBfloat16] | None:
    """The narrower type that values are stored in, if any."""
    if codec.dtype is None or dtype.itemsize == 2:
        return None
    return RawFloat16 if codec.dtype == "float16" else RawBfloat16


def _raw(device: Device, codec: Raw, words: Any, dtype: np.dtype[Any], count: Any) -> Coded:
    stored = _stored(codec, dtype)
    if stored is None:
        return Coded(Raw.wire_id, words.view(np.uint8))
    narrow, over = elements.narrowed(device, words, stored.stored, count)
    return Coded(stored.wire_id, narrow.view(np.uint8), (over,))


def _qsgd(device: Device, codec: QSGD, single: Any, dtype: np.dtype[Any], stream: Any, count: Any) -> Any:
    norm, largest = _NORMS[codec.norm], MAX_FLOAT32[dtype.name]
    return values.qsgd(device, single, codec.bits, codec.bucket, norm, largest, stream, count)


def _offset_float(
    device: Device, codec: OffsetFloat, single: Any, dtype: np.dtype[Any], stream: Any, count: Any
) -> Any:
    eps, up, down = (None if x is None else _magnitude(x) for x in (codec.eps, codec.max, codec.min))
    largest, stochastic = _magnitude(MAX_FLOAT32[dtype.name]), codec.rounding == "stochastic"
    asked = values.OffsetFormat(codec.bits, codec.mantissa, eps, up, down, largest, stochastic)
    return values.offset_float(device, single, asked, stream, count)


def _magnitude(x: float) -> int:
    """The bits of |x|, a binary32 number."""
    return int.from_bytes(struct.pack("<f", abs(x)), "little")
