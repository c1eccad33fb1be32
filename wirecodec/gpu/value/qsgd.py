"""``qsgd`` on the device."""

from __future__ import annotations

from typing import Any

import numpy as np

from wirecodec.arrays import Bytes
from wirecodec.gpu.value.base import EncodedValues, GpuValueCodec, to_float32, to_values
from wirecodec.kernels.cuda import qsgd
from wirecodec.kernels.cuda.device import Device
from wirecodec.value.float32_convert import MAX_FLOAT32
from wirecodec.value.qsgd import QSGD

_NORM_CODES = {"max": 0, "l2": 1}


def _encode(device: Device, codec: QSGD, raw: Any, dtype: np.dtype[Any], stream: int) -> EncodedValues:
    float32, flags = to_float32(device, raw, dtype)
    norm, largest = _NORM_CODES[codec.norm], MAX_FLOAT32[dtype.name]
    section = qsgd.encode(device, float32, codec.bits, codec.bucket, norm, largest, stream)
    return EncodedValues(section, flags)


def _decode(device: Device, section: Bytes, r: int, dtype: np.dtype[Any]) -> Any:
    bits, bucket, _ = QSGD.read_header(section, r, dtype)
    return to_values(device, *qsgd.decode(device, device.put(section), r, bits, bucket), dtype)


QSGD_VALUES = GpuValueCodec(codec=QSGD, encode=_encode, decoders={QSGD.wire_id: _decode})
