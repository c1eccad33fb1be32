"""Launching ``packing.cu``: codes of 1 to 24 bits side by side (formats/SPEC.md, 1.1)."""

from __future__ import annotations

from typing import Any

import numpy as np

from wirecodec.kernels.cuda.device import Device, blocks_for
from wirecodec.kernels.layout import PACK_BLOCK, PACK_LANES

__all__ = ["pack", "packed_words", "unpack"]


def packed_words(count: int, bits: int) -> int:
    """u32 words of ``count`` codes of ``bits`` bits each."""
    return PACK_LANES * bits * (count // PACK_BLOCK) + -(-(count % PACK_BLOCK) * bits // 32)


def pack(device: Device, codes: Any, bits: int, words: Any) -> None:
    """(n,) u8, u16 or u32 ``codes``, each below 2^bits, to u32 ``words``, all of which are written."""
    name = f"pack_u{8 * codes.dtype.itemsize}"
    blocks = blocks_for(codes.size, PACK_BLOCK)
    device.launch("packing", name, blocks, codes, np.uint32(codes.size), np.uint32(bits), words)


def unpack(device: Device, words: Any, bits: int, codes: Any) -> None:
    """As many codes as ``codes`` (u8, u16 or u32) has room for, out of u32 ``words``."""
    name = f"unpack_u{8 * codes.dtype.itemsize}"
    blocks = blocks_for(codes.size, PACK_BLOCK)
    device.launch("packing", name, blocks, words, np.uint32(codes.size), np.uint32(bits), codes)
