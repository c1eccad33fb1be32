"""The loops of the RLE index codec (formats/spec/index/rle.md): runs to varints and back."""

from __future__ import annotations

import numpy as np

from wirecodec.arrays import Array
from wirecodec.kernels.cpu.coding import varint
from wirecodec.kernels.cpu.jit import inline, kernel

__all__ = ["BAD_COUNT", "BAD_RANGE", "planned", "read", "write"]

U32 = np.uint32
U64 = np.uint64

BAD_COUNT, BAD_RANGE = 1, 2

_CHUNK = 4096
_SHORT = 8
write_varints, read_varints = varint.write, varint.read


@kernel
def planned(indices: Array) -> int:
    """Bytes of the section of (r,) u32 ``indices``, r > 0.

    A byte for each run, and one more wherever a stored number reaches 2^7, 2^14 or 2^21. The last is asked of
    gaps one by one for absent runs, and for present runs by looking ahead: the run that begins at i is longer
    than n exactly where indices[i + n] is indices[i] + n.
    """
    r = indices.size
    first = indices[0]
    total = 2 + (first >= U32(1 << 7)) + (first >= U32(1 << 14)) + (first >= U32(1 << 21))
    for start in range(1, r, 4096):
        now = indices[start : start + 4096]
        before = indices[start - 1 : start - 1 + now.size]
        count = U32(0)  # at most 5 a gap
        for i in range(now.size):
            step = U32(now[i] - before[i])
            # One comparison a line: sums of comparisons would be widened to 64 bits.
            count = U32(count + U32(step >= U32(2)))
            count = U32(count + U32(step >= U32(2)))
            count = U32(count + U32(step >= U32(2 + (1 << 7))))
            count = U32(count + U32(step >= U32(2 + (1 << 14))))
            count = U32(count + U32(step >= U32(2 + (1 << 21))))
        total += np.int64(count)
    # A run of more than 128 holds two neighbouring multiples of 64, so mostly this is the end.
    dense = False
    for i in range(64, r, 64):
        dense |= U32(indices[i] - indices[i - 64]) == U32(64)
    if dense:
        for shift in (7, 14, 21):
            total += _runs_beyond(indices, np.int64(1) << shift)
    return total


@inline
def _runs_beyond(indices: Array, n: np.int64) -> np.int64:
    """How many runs of consecutive indices are longer than ``n``."""
    r = indices.size
    if r <= n:
        return np.int64(0)
    runs = np.int64(U32(indices[n] - indices[0]) == U32(n))
    for start in range(1, r - n, 4096):
        ahead = indices[start + n : start + n + 4096]
        now = indices[start : start + ahead.size]
        before = indices[start - 1 : start - 1 + ahead.size]
        count = U32(0)
        for i in range(ahead.size):
            begins = U32(U32(now[i] - before[i]) != U32(1))
            count = U32(count + U32(begins & U32(U32(ahead[i] - now[i]) == U32(n))))
        runs += np.int64(count)
    return runs


@kernel
def write(indices: Array, section: Array) -> None:
    """The section of (r,) u32 ``indices``, r > 0, into 7 bytes more than were planned."""
    numbers = np.empty(2 * _CHUNK + 2, np.uint32)
    numbers[0] = indices[0]
    n = np.int64(1)  # absent runs so far, and the present runs between them
    begin = np.int64(0)
    at = np.int64(0)
    for start in range(1, indices.size, _CHUNK):
        for i in range(start, min(start + _CHUNK, indices.size)):
            # Both numbers are written wherever they might be, and kept where a run ends.
            step = U32(indices[i] - indices[i - 1])
            numbers[n] = U32(i - begin - 1)
            numbers[n + 1] = U32(step - U32(2))
            ends = step != U32(1)
            n += 2 * np.int64(ends)
            begin = np.int64(i) if ends else begin
        at = write_varints(numbers[:n], section, at)
        n = np.int64(0)
    numbers[n] = U32(indices.size - begin - 1)
    write_varints(numbers[: n + 1], section, at)


@kernel
def read(framed: Array, length: int, d: int, out: Array) -> int:
    """The indices of a surveyed section (varint.py) with an even number of numbers.

    Returns 0, or which check failed (BAD_*).
    """
    numbers = np.empty(varint.GROUP * 64 + 1, np.uint32)
    held = np.int64(0)  # an absent run whose present run is still to come
    last = np.int64(varint.FRONT - 1)
    stop = varint.FRONT + length
    index = U64(0)  # the first element that no run has reached
    count = np.int64(0)
    first = U64(0)
    for at in range(varint.FRONT, stop, varint.GROUP * 64):
        found, last = read_varints(framed, at, min(at + varint.GROUP * 64, stop), numbers, held, last)
        pairs = found >> 1
        for k in range(pairs):
            index += U64(numbers[2 * k]) + first
            first = U64(1)
            present = np.int64(numbers[2 * k + 1]) + 1
            if present > out.size - count:
                return BAD_COUNT
            if index + U64(present) > U64(d):
                return BAD_RANGE
            run = out[count : count + _SHORT]
            if present <= _SHORT and run.size == _SHORT:
                for j in range(_SHORT):  # too many: the next run writes over them
                    run[j] = U32(index & U64(0xFFFFFFFF)) + U32(j)
            else:
                run = out[count : count + present]
                for j in range(run.size):
                    run[j] = U32(index & U64(0xFFFFFFFF)) + U32(j)
            count += present
            index += U64(present)
        held = found & 1
        if held:
            numbers[0] = numbers[found - 1]
    return 0 if count == out.size else BAD_COUNT
