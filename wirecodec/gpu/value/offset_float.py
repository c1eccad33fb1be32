"""``offset-float`` on the device."""

from __future__ import annotations

import struct
from typing import Any

import numpy as np

from wirecodec.arrays import Bytes
from wirecodec.gpu.value.base import EncodedValues, GpuValueCodec, to_float32, to_values
from wirecodec.kernels.cuda import offset_float
from wirecodec.kernels.cuda.device import Device
from wirecodec.value.float32_convert import MAX_FLOAT32
from wirecodec.value.offset_float import OffsetFloat


def _encode(device: Device, codec: OffsetFloat, raw: Any, dtype: np.dtype[Any], stream: int) -> EncodedValues:
    float32, flags = to_float32(device, raw, dtype)
    eps, up, down = (None if x is None else _magnitude(x) for x in (codec.eps, codec.max, codec.min))
    largest, stochastic = _magnitude(MAX_FLOAT32[dtype.name]), codec.rounding == "stochastic"
    request = offset_float.OffsetFormat(codec.bits, codec.mantissa, eps, up, down, largest, stochastic)
    return EncodedValues(offset_float.encode(device, float32, request, stream), flags)


def _decode(device: Device, section: Bytes, r: int, dtype: np.dtype[Any]) -> Any:
    header = OffsetFloat.read_header(section, r, dtype)
    return to_values(device, *offset_float.decode(device, device.put(section), r, header), dtype)


def _magnitude(x: float) -> int:
    """Return the raw bits of |x| as a binary32 number."""
    return int.from_bytes(struct.pack("<f", abs(x)), "little")


OFFSET_FLOAT = GpuValueCodec(codec=OffsetFloat, encode=_encode, decoders={OffsetFloat.wire_id: _decode})
