"""Checksums of a container's entries: CRC-32 of each entry's sections with their padding, which is 0."""

from __future__ import annotations

import zlib
from functools import cache

import numpy as np

from wirecodec.arrays import Array, Bytes, read_only

MIN_KERNEL_BYTES, MIN_KERNEL_SLICES = 2**16, 32
"""Bytes and slices from which a kernel is used. It is faster from 4 kB on, but takes 0.5 s to compile."""
MIN_BYTES_PER_THREAD = 2**20


def compute_checksums(data: Bytes, starts: Array, stops: Array) -> Array:
    """Compute the CRC-32 of each of many slices, (n,) u32.

    Args:
        data: (m,) u8, at an address that is a multiple of 8; m is a multiple of 8.
        starts: (n,) i64, offsets of the slices, multiples of 8.
        stops: (n,) i64, the offsets after them, multiples of 8.
    """
    n, total = starts.size, int((stops - starts).sum())
    if total < MIN_KERNEL_BYTES and n < MIN_KERNEL_SLICES:
        raw = data.data
        slices = zip(starts.tolist(), stops.tolist(), strict=True)
        return np.array([zlib.crc32(raw[start:stop]) for start, stop in slices], np.uint32)
    from wirecodec.kernels.cpu.coding.crc32 import crc32
    from wirecodec.kernels.cpu.threads import run_parallel

    words, checksums = read_only(data.view(np.uint64)), np.empty(n, np.uint32)
    begin, end = starts >> 3, stops >> 3
    run_parallel(
        lambda turns: crc32(words, begin, end, _tables(), checksums, turns),
        n,
        max(1, MIN_BYTES_PER_THREAD * n // max(1, total)),
    )
    return checksums


def compute_checksum(data: Bytes, start: int, stop: int) -> int:
    """Compute the CRC-32 of data[start:stop]; see ``compute_checksums``."""
    if stop - start < MIN_KERNEL_BYTES:
        return zlib.crc32(data.data[start:stop])
    return int(compute_checksums(data, np.array((start,)), np.array((stop,)))[0])


def is_intact(data: Bytes, crcs: Array, starts: Array, lengths: Array, ends: Array) -> bool:
    """Check the checksums of n entries, and that the padding of their sections is 0.

    Args:
        data: the container.
        crcs, starts: (n,) checksums and offsets.
        lengths, ends: (3, n) bytes of each section, and the offset after its padding.
    """
    return bool((compute_checksums(data, starts, ends[-1]) == crcs).all()) and has_zero_padding(
        data, lengths, ends
    )


def has_zero_padding(data: Bytes, lengths: Array, ends: Array) -> bool:
    """Check that the padding of sections is 0; arguments as for ``is_intact``."""
    odd = (lengths & 7) > 0
    last = data.view("<u8")[(ends[odd] >> 3) - 1]
    return not (last >> (8 * (lengths[odd] & 7)).astype(np.uint64)).any()


@cache
def _tables() -> Array:
    """Return (2048,) u32: at 256 i + byte, the register of a byte that i zero bytes follow."""
    from wirecodec.kernels.cpu.coding.crc32 import POLYNOMIAL

    tables = np.empty((8, 256), np.uint32)
    tables[0] = np.arange(256)
    for _ in range(8):
        tables[0] = (tables[0] >> 1) ^ np.where(tables[0] & 1, np.uint32(POLYNOMIAL), np.uint32(0))
    for i in range(1, 8):
        tables[i] = (tables[i - 1] >> 8) ^ tables[0][tables[i - 1] & 0xFF]
    return read_only(tables.reshape(-1))
