"""Launch ``packing.cu``: codes of 1 to 24 bits, packed (formats/SPEC.md, 1.1)."""

from __future__ import annotations

from typing import Any

import numpy as np

from wirecodec.kernels.cuda.device import Device, blocks_for
from wirecodec.kernels.layout import PACK_BLOCK, PACK_LANES


def packed_words(count: Any, bits: Any) -> Any:
    """Return the number of u32 words that ``count`` codes of ``bits`` bits take; for integers, or arrays."""
    return PACK_LANES * bits * (count // PACK_BLOCK) + -(-(count % PACK_BLOCK) * bits // 32)


def pack(device: Device, codes: Any, bits: int, words: Any) -> None:
    """Pack (n,) u8, u16 or u32 ``codes``, each below 2^bits, into u32 ``words``; all words are written."""
    name = f"pack_u{8 * codes.dtype.itemsize}"
    blocks = blocks_for(codes.size, PACK_BLOCK)
    device.launch("packing", name, blocks, codes, np.uint32(codes.size), np.uint32(bits), words)


def unpack(device: Device, words: Any, bits: int, codes: Any) -> None:
    """Unpack u32 ``words`` into ``codes`` (u8, u16 or u32); its size is the number of codes."""
    name = f"unpack_u{8 * codes.dtype.itemsize}"
    blocks = blocks_for(codes.size, PACK_BLOCK)
    device.launch("packing", name, blocks, words, np.uint32(codes.size), np.uint32(bits), codes)
