"""``raw`` on the device, and its 16-bit forms."""

from __future__ import annotations

from typing import Any

import numpy as np

from wirecodec.arrays import Bytes
from wirecodec.gpu.value.base import EncodedValues, GpuValueCodec, ValueDecoder
from wirecodec.kernels.cuda import elements
from wirecodec.kernels.cuda.device import Device
from wirecodec.value.raw import Raw, RawBfloat16, RawFloat16


def _narrow_form(codec: Raw, dtype: np.dtype[Any]) -> type[RawFloat16] | type[RawBfloat16] | None:
    """Return the 16-bit form that stores the values, or None if they keep their type."""
    if codec.dtype is None or dtype.itemsize == 2:
        return None
    return RawFloat16 if codec.dtype == "float16" else RawBfloat16


def _wire_id(codec: Raw, dtype: np.dtype[Any]) -> int:
    return (_narrow_form(codec, dtype) or Raw).wire_id


def _encode(device: Device, codec: Raw, raw: Any, dtype: np.dtype[Any], stream: int) -> EncodedValues:
    form = _narrow_form(codec, dtype)
    if form is None:
        return EncodedValues(raw.view(np.uint8))
    narrow, overflow = elements.narrow(device, raw, form.stored)
    return EncodedValues(narrow.view(np.uint8), (overflow,))


def _decode(device: Device, section: Bytes, r: int, dtype: np.dtype[Any]) -> Any:
    fits = section.size == r * dtype.itemsize
    return device.put(section).view(f"u{dtype.itemsize}") if fits else None


def _narrow_decoder(stored: np.dtype[Any]) -> ValueDecoder:
    """Return the decoder of a 16-bit form."""

    def decode(device: Device, section: Bytes, r: int, dtype: np.dtype[Any]) -> Any:
        if section.size != 2 * r or dtype.itemsize == 2:
            return None
        float32, _ = elements.to_float32(device, device.put(section).view(np.uint16), stored)
        return elements.from_float32(device, float32, dtype)

    return decode


RAW = GpuValueCodec(
    codec=Raw,
    encode=_encode,
    decoders={
        Raw.wire_id: _decode,
        RawFloat16.wire_id: _narrow_decoder(RawFloat16.stored),
        RawBfloat16.wire_id: _narrow_decoder(RawBfloat16.stored),
    },
    wire_id=_wire_id,
)
