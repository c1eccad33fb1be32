"""Kernels of the binned index codec (formats/spec/index/binned.md): count, write and read records."""

from __future__ import annotations

import numpy as np

from wirecodec.arrays import Array
from wirecodec.kernels.compiler.jit import kernel
from wirecodec.kernels.cpu.simd.words import load64, store64

U32 = np.uint32
U64 = np.uint64

BAD_LENGTH, BAD_NUMBER, BAD_EMPTY, BAD_ORDER, BAD_RANGE = -1, -2, -3, -4, -5


@kernel
def count_records(indices: Array, bin_size: int) -> int:
    """Count the records of (r,) u32 ``indices``, r > 0: one per index and one per empty bin."""
    records = indices.size
    end = np.int64(0)
    for i in range(indices.size):
        index = np.int64(indices[i])
        if index >= end + bin_size:
            skipped = (index - end) // bin_size
            records += skipped
            end += skipped * bin_size
        if index >= end:
            end += bin_size
    return records


@kernel
def write(indices: Array, bin_size: int, width: int, records: int, data: Array) -> None:
    """Write all records.

    Args:
        indices: (r,) u32, ascending, r > 0.
        bin_size: T, elements per bin.
        width: bits per number.
        records: number of records, from ``count_records``.
        data: u8, written, 8 bytes longer than the records.
    """
    last = U64(1) << U64(width)
    empty = last | U64(bin_size)
    start = np.int64(0)
    at = 0
    pending = U64(0)  # The bits before the next record in its first byte.
    i = 0
    for _ in range(records):  # A fixed count keeps the loop in bounds if another thread changes the indices.
        index = np.int64(indices[min(i, indices.size - 1)])
        record = empty
        ends = index >= start + bin_size
        if not ends:
            record = U64(index - start)
            i += 1
            ends = i >= indices.size or np.int64(indices[i]) >= start + bin_size
            if ends:
                record |= last
        if ends:
            start += bin_size
        pending |= record << U64(at & 7)
        store64(data, at >> 3, pending)
        pending >>= U64(((at & 7) + width + 1) & -8)
        at += width + 1


@kernel
def read(data: Array, stop: int, bin_size: int, width: int, d: int, out: Array) -> tuple[int, bool]:
    """Read the records of r elements.

    Args:
        data: u8, the records and 8 more bytes.
        stop: the bit after the records.
        bin_size: T, elements per bin.
        width: bits per number.
        d: elements of the chunk.
        out: (r,) u32, written.

    Returns:
        (the bit after the last element's record, whether that record ends its bin), or (BAD_*, False).
    """
    mask = (U64(1) << U64(width)) - U64(1)
    start = np.int64(0)
    lower_bound = np.int64(0)  # Lower bound of the next number; above 0 within a bin.
    at = 0
    n = 0
    last = True
    while n < out.size:
        if at + width + 1 > stop:
            return BAD_LENGTH, False
        record = load64(data, at >> 3) >> U64(at & 7)
        number = np.int64(record & mask)
        last = (record >> U64(width)) & U64(1) != U64(0)
        at += width + 1
        if number > bin_size:
            return BAD_NUMBER, False
        if number == bin_size:
            if lower_bound > 0 or not last:
                return BAD_EMPTY, False
            start += bin_size
            continue
        if number < lower_bound:
            return BAD_ORDER, False
        if start + number >= d:
            return BAD_RANGE, False
        out[n] = U32(start + number)
        n += 1
        lower_bound = np.int64(0) if last else number + 1
        if last:
            start += bin_size
    return at, last
