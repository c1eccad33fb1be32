"""Launching ``checksum.cu``: CRC-32 (formats/SPEC.md, section 6)."""

from __future__ import annotations

from typing import Any

import numpy as np

from wirecodec.kernels.cuda.device import THREADS, Device, blocks_for

__all__ = ["crc32"]

_PIECE = 64
"""Bytes of a thread."""


def crc32(device: Device, octets: Any) -> Any:
    """(1,) u32, the checksum of u8 ``octets``."""
    crc = device.empty(1, np.uint32)
    device.clear(crc)
    blocks = max(blocks_for(octets.size, _PIECE * THREADS), 1)
    device.launch("checksum", "crc32", blocks, octets, np.uint64(octets.size), crc)
    return crc
