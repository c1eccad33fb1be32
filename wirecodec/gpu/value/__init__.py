"""The value codecs that have CUDA kernels, one file per codec. `wirecodec.value` has the CPU's.

To add a codec, write a file with its record and add the record to ``GPU_VALUE_CODECS``.
"""

from __future__ import annotations

from typing import Any

from wirecodec.gpu.value import offset_float, qsgd, raw, sign_scale
from wirecodec.gpu.value.base import GpuValueCodec, ValueDecoder
from wirecodec.value.offset_float import OffsetFloat

__all__ = ["GPU_VALUE_CODECS", "find_value_codec", "find_value_decoder"]

GPU_VALUE_CODECS: tuple[GpuValueCodec, ...] = (
    raw.RAW,
    qsgd.QSGD_VALUES,
    offset_float.OFFSET_FLOAT,
    sign_scale.SIGN_SCALE,
)
_BY_TYPE = {record.codec: record for record in GPU_VALUE_CODECS}
_DECODERS = {wire_id: decode for record in GPU_VALUE_CODECS for wire_id, decode in record.decoders.items()}


def find_value_codec(codec: Any) -> GpuValueCodec | None:
    """Return the record of a scheme's value codec, or None if it has no kernels."""
    if isinstance(codec, OffsetFloat) and codec.overflow == "raise":
        return None  # the host reports the value
    return _BY_TYPE.get(type(codec))


def find_value_decoder(wire_id: int) -> ValueDecoder | None:
    """Return the decoder of a wire id, or None if there is none."""
    return _DECODERS.get(wire_id)
