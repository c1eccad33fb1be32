"""Kernels of the RLE index codec (formats/spec/index/rle.md): runs to varints and back."""

from __future__ import annotations

import numpy as np

from wirecodec.arrays import Array
from wirecodec.kernels.compiler.jit import inline, kernel
from wirecodec.kernels.cpu.coding import varint

U32 = np.uint32
U64 = np.uint64

BAD_COUNT, BAD_RANGE = 1, 2

_INDICES_PER_PASS = 4096
_SHORT_RUN = 8
write_varints, read_varints = varint.write, varint.read


@kernel
def measure(indices: Array) -> int:
    """Return the length in bytes of the section of (r,) u32 ``indices``, r > 0.

    A run takes one byte, and one more for each of 2^7, 2^14 and 2^21 that its number reaches. Absent runs are
    measured gap by gap. Present runs are measured by looking ahead: the run that begins at i is longer than n
    if and only if indices[i + n] == indices[i] + n.
    """
    r = indices.size
    first = indices[0]
    total = 2 + (first >= U32(1 << 7)) + (first >= U32(1 << 14)) + (first >= U32(1 << 21))
    for start in range(1, r, 4096):
        now = indices[start : start + 4096]
        before = indices[start - 1 : start - 1 + now.size]
        count = U32(0)  # At most 5 per gap.
        for i in range(now.size):
            step = U32(now[i] - before[i])
            # One comparison per line, because Numba widens sums of comparisons to 64 bits.
            count = U32(count + U32(step >= U32(2)))
            count = U32(count + U32(step >= U32(2)))
            count = U32(count + U32(step >= U32(2 + (1 << 7))))
            count = U32(count + U32(step >= U32(2 + (1 << 14))))
            count = U32(count + U32(step >= U32(2 + (1 << 21))))
        total += np.int64(count)
    # A run longer than 128 holds two neighbouring multiples of 64; without one, no run needs a longer number.
    dense = False
    for i in range(64, r, 64):
        dense |= U32(indices[i] - indices[i - 64]) == U32(64)
    if dense:
        for shift in (7, 14, 21):
            total += _count_runs_longer(indices, np.int64(1) << shift)
    return total


@inline
def _count_runs_longer(indices: Array, n: np.int64) -> np.int64:
    """Count the runs of consecutive indices that are longer than ``n``."""
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
    """Write the section of (r,) u32 ``indices``, r > 0, into 7 bytes more than ``measure`` returned."""
    numbers = np.empty(2 * _INDICES_PER_PASS + 2, np.uint32)
    numbers[0] = indices[0]
    n = np.int64(1)  # Numbers of this pass: absent runs, and the present runs between them.
    begin = np.int64(0)
    at = np.int64(0)
    for start in range(1, indices.size, _INDICES_PER_PASS):
        for i in range(start, min(start + _INDICES_PER_PASS, indices.size)):
            # Both numbers are always written, and kept only if a run ends here.
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
    """Read the indices of a section with an even count of numbers, which ``varint.survey`` has checked.

    Returns:
        0 or BAD_*.
    """
    numbers = np.empty(varint.GROUP * 64 + 1, np.uint32)
    held = np.int64(0)  # 1 if an absent run still lacks its present run.
    last = np.int64(varint.FRONT - 1)
    stop = varint.FRONT + length
    index = U64(0)  # The first element after the runs so far.
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
            run = out[count : count + _SHORT_RUN]
            if present <= _SHORT_RUN and run.size == _SHORT_RUN:
                for j in range(_SHORT_RUN):  # The next run overwrites the surplus.
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
