"""The index codecs that have CUDA kernels, one file per codec. `wirecodec.index` has the CPU's.

To add a codec, write a file with its record and add the record to ``GPU_INDEX_CODECS``.
"""

from __future__ import annotations

from typing import Any

from wirecodec.gpu.index import bitmap, bloom, elias_fano, raw, rice
from wirecodec.gpu.index.base import GpuIndexCodec

__all__ = ["GPU_INDEX_CODECS", "find_index_codec", "find_index_decoder"]

GPU_INDEX_CODECS: tuple[GpuIndexCodec, ...] = (
    raw.RAW_INDEX,
    bitmap.BITMAP,
    rice.RICE,
    elias_fano.ELIAS_FANO,
    bloom.BLOOM,
)
_BY_TYPE = {record.codec: record for record in GPU_INDEX_CODECS}
_BY_WIRE_ID = {record.codec.wire_id: record for record in GPU_INDEX_CODECS if record.decode is not None}


def find_index_codec(codec: Any) -> GpuIndexCodec | None:
    """Return the record of a scheme's index codec, or None if it has no kernels for its parameters."""
    record = _BY_TYPE.get(type(codec))
    return record if record is not None and record.supports(codec) else None


def find_index_decoder(wire_id: int) -> GpuIndexCodec | None:
    """Return the record of the codec that decodes a wire id, or None if there is none."""
    return _BY_WIRE_ID.get(wire_id)
