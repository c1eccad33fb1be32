"""Launch ``checksum.cu``: CRC-32 (formats/SPEC.md, section 6)."""

from __future__ import annotations

from typing import Any

import numpy as np

from wirecodec.kernels.cuda.device import THREADS, Device, blocks_for

_BYTES_PER_THREAD = 64
"""Bytes per thread."""


def crc32(device: Device, data: Any) -> Any:
    """Compute the checksum of u8 bytes, (1,) u32."""
    crc = device.empty(1, np.uint32)
    device.clear(crc)
    blocks = max(blocks_for(data.size, _BYTES_PER_THREAD * THREADS), 1)
    device.launch("checksum", "crc32", blocks, data, np.uint64(data.size), crc)
    return crc
