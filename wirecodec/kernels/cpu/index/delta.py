"""The loops of the delta index codec (formats/spec/index/delta.md): gaps to varints and back."""

from __future__ import annotations

import numpy as np

from wirecodec.arrays import Array
from wirecodec.kernels.cpu.coding import varint
from wirecodec.kernels.cpu.jit import inline, kernel

__all__ = ["planned", "read", "write"]

U32 = np.uint32
U64 = np.uint64

_CHUNK = 4096
size_varints, write_varints, read_varints = varint.size, varint.write, varint.read


@inline
def _gaps(indices: Array, start: np.int64, gaps: Array) -> Array:
    """The gaps of the indices from ``start`` on, as many as ``gaps`` has room for."""
    now = indices[start : start + gaps.size]
    if start == 0:
        gaps[0] = now[0]
        for i in range(1, now.size):
            gaps[i] = U32(now[i] - now[i - 1] - U32(1))
    else:
        before = indices[start - 1 : start - 1 + now.size]
        for i in range(now.size):
            gaps[i] = U32(now[i] - before[i] - U32(1))
    return gaps[: now.size]


@kernel
def planned(indices: Array) -> int:
    """Bytes of the section of (r,) u32 ``indices``, r > 0."""
    gaps = np.empty(_CHUNK, np.uint32)
    total = 0
    for start in range(0, indices.size, _CHUNK):
        total += size_varints(_gaps(indices, start, gaps))
    return total


@kernel
def write(indices: Array, section: Array) -> None:
    """The section of (r,) u32 ``indices``, into 7 bytes more than were planned."""
    gaps = np.empty(_CHUNK, np.uint32)
    at = np.int64(0)
    for start in range(0, indices.size, _CHUNK):
        at = write_varints(_gaps(indices, start, gaps), section, at)


@kernel
def read(framed: Array, length: int, out: Array) -> int:
    """The indices of a surveyed section (varint.py), as many as its numbers; the least d that they fit."""
    j = np.int64(0)
    last = np.int64(varint.FRONT - 1)
    index = U64(0)
    stop = varint.FRONT + length
    for at in range(varint.FRONT, stop, _CHUNK):
        first = j
        j, last = read_varints(framed, at, min(at + _CHUNK, stop), out, j, last)
        new = out[first:j]
        for i in range(new.size):
            index += U64(new[i]) + U64(1)
            new[i] = U32((index - U64(1)) & U64(0xFFFFFFFF))
    return np.int64(index)
