"""Kernels of the delta index codec (formats/spec/index/delta.md): gaps to varints and back."""

from __future__ import annotations

import numpy as np

from wirecodec.arrays import Array
from wirecodec.kernels.compiler.jit import inline, kernel
from wirecodec.kernels.cpu.coding import varint

U32 = np.uint32
U64 = np.uint64

_INDICES_PER_PASS = 4096
size_varints, write_varints, read_varints = varint.size, varint.write, varint.read


@inline
def _gaps(indices: Array, start: np.int64, gaps: Array) -> Array:
    """Compute the gaps of the indices from ``start`` on, at most ``gaps.size`` of them."""
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
def measure(indices: Array) -> int:
    """Return the length in bytes of the section of (r,) u32 ``indices``, r > 0."""
    gaps = np.empty(_INDICES_PER_PASS, np.uint32)
    total = 0
    for start in range(0, indices.size, _INDICES_PER_PASS):
        total += size_varints(_gaps(indices, start, gaps))
    return total


@kernel
def write(indices: Array, section: Array) -> None:
    """Write the section of (r,) u32 ``indices`` into a buffer 7 bytes longer than ``measure`` returned."""
    gaps = np.empty(_INDICES_PER_PASS, np.uint32)
    at = np.int64(0)
    for start in range(0, indices.size, _INDICES_PER_PASS):
        at = write_varints(_gaps(indices, start, gaps), section, at)


@kernel
def read(framed: Array, length: int, out: Array) -> int:
    """Read the indices of a section that ``varint.survey`` has checked, one per number.

    Returns:
        The least d below which all of them are, in 64 bits.
    """
    j = np.int64(0)
    last = np.int64(varint.FRONT - 1)
    index = U64(0)
    stop = varint.FRONT + length
    for at in range(varint.FRONT, stop, _INDICES_PER_PASS):
        first = j
        j, last = read_varints(framed, at, min(at + _INDICES_PER_PASS, stop), out, j, last)
        new = out[first:j]
        for i in range(new.size):
            index += U64(new[i]) + U64(1)
            new[i] = U32((index - U64(1)) & U64(0xFFFFFFFF))
    return np.int64(index)
