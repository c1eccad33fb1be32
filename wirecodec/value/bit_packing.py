"""Bit-packed codes, shared by several sections (formats/SPEC.md, 1.1)."""

from __future__ import annotations

from typing import Any

import numpy as np

from wirecodec.arrays import Array, Bytes, read_only
from wirecodec.kernels.layout import PACK_BLOCK


def packed_size(count: int, bits: int) -> int:
    """Compute the bytes of ``count`` codes with ``bits`` bits each."""
    return PACK_BLOCK * bits // 8 * (count // PACK_BLOCK) + 4 * -(-(count % PACK_BLOCK) * bits // 32)


def packed_sizes(counts: Array, bits: int) -> Array:
    """Compute ``packed_size`` of each of (n,) i64 counts."""
    sizes: Array = PACK_BLOCK * bits // 8 * (counts // PACK_BLOCK) + 4 * -(
        -(counts % PACK_BLOCK) * bits // 32
    )
    return sizes


def pack(codes: Array, bits: int) -> Bytes:
    """Pack codes.

    Args:
        codes: (count,) u8, u16 or u32, each below 2^bits.
        bits: bits per code, 1 to 24.

    Returns:
        (packed_size(count, bits),) uint8.
    """
    from wirecodec.kernels.cpu.coding import packing

    words = np.empty(packed_size(codes.size, bits) // 4, np.uint32)
    packing.pack(read_only(codes), bits, words)
    return words.view(np.uint8)


def unpack(part: Bytes, count: int, bits: int, dtype: Any) -> Array:
    """Unpack codes.

    Args:
        part: (packed_size(count, bits),) uint8.
        count: number of codes.
        bits: bits per code, 1 to 24.
        dtype: uint8, uint16 or uint32.

    Returns:
        (count,) array of type ``dtype``.
    """
    from wirecodec.kernels.cpu.coding import packing

    codes = np.empty(count, dtype)
    packing.unpack(read_only(part).view("<u4"), bits, codes)
    return codes


def has_stray_bits(part: Bytes, count: int, bits: int) -> bool:
    """Check if a bit after the last code of packed codes is set."""
    used = count % PACK_BLOCK * bits % 32
    return bool(used and int.from_bytes(part[-4:].tobytes(), "little") >> used)
