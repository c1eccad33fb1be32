"""``sign-scale`` on the device."""

from __future__ import annotations

from typing import Any

import numpy as np

from wirecodec.arrays import Bytes
from wirecodec.gpu.value.base import EncodedValues, GpuValueCodec, find_nonfinite
from wirecodec.kernels.cuda import elements, sign_scale
from wirecodec.kernels.cuda.device import Device
from wirecodec.value.sign_scale import SignScale


def _encode(device: Device, codec: SignScale, raw: Any, dtype: np.dtype[Any], stream: int) -> EncodedValues:
    nonfinite = find_nonfinite(device, raw, dtype)
    section = sign_scale.encode(device, elements.widen(device, raw, dtype))
    return EncodedValues(section, (nonfinite,))


def _decode(device: Device, section: Bytes, r: int, dtype: np.dtype[Any]) -> Any:
    zero, one, signs = SignScale.read_header(section, r, dtype)
    return sign_scale.expand(device, device.put(np.ascontiguousarray(signs)), r, zero, one)


SIGN_SCALE = GpuValueCodec(codec=SignScale, encode=_encode, decoders={SignScale.wire_id: _decode})
