"""What the GPU knows of a value codec, in one record per codec."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from wirecodec.arrays import Bytes
from wirecodec.kernels.cuda import bits, elements
from wirecodec.kernels.cuda.device import Device
from wirecodec.kernels.cuda.select import infinity_of

ValueDecoder: TypeAlias = Callable[[Device, Bytes, int, "np.dtype[Any]"], Any]
"""(device, section, r, dtype) -> (r,) raw bits on the device, or None if the host must decode the section."""


@dataclass(frozen=True, eq=False)
class EncodedValues:
    """Value section on the device.

    Attributes:
        section: u8.
        flags: (1,) u32 each, the first position of a value that cannot be encoded, or ``NOWHERE``.
    """

    section: Any
    flags: tuple[Any, ...] = ()


@dataclass(frozen=True, kw_only=True)
class GpuValueCodec:
    """Kernels of a value codec.

    Attributes:
        codec: class of the CPU's codec, which writes the same bytes.
        encode: (device, codec, raw bits, dtype, stream) -> section, for (r,) values of an element type,
            r > 0. The u64 ``stream`` seeds the draws. The host does not wait.
        decoders: decoder of each wire id that the codec writes.
        wire_id: (codec, dtype) -> wire id that the codec writes for an element type.
    """

    codec: Any
    encode: Callable[[Device, Any, Any, np.dtype[Any], int], EncodedValues]
    decoders: Mapping[int, ValueDecoder]
    wire_id: Callable[[Any, np.dtype[Any]], int] = lambda codec, dtype: int(codec.wire_id)


def find_nonfinite(device: Device, raw: Any, dtype: np.dtype[Any]) -> Any:
    """Return (1,) u32, the first position of a NaN or Inf, or ``NOWHERE``."""
    return bits.find_nonfinite(device, raw, infinity_of(dtype))


def to_float32(device: Device, raw: Any, dtype: np.dtype[Any]) -> tuple[Any, tuple[Any, Any]]:
    """Convert values to the raw bits of float32; return them with flags for NaN or Inf, and for overflow."""
    nonfinite = find_nonfinite(device, raw, dtype)
    float32, overflow = elements.to_float32(device, raw, dtype)
    return float32, (nonfinite, overflow)


def to_values(device: Device, float32: Any, flag: Any, dtype: np.dtype[Any]) -> Any:
    """Convert the raw bits of float32 to an element type; None if a kernel has set the flag."""
    return None if device.get(flag)[0] else elements.from_float32(device, float32, dtype)
