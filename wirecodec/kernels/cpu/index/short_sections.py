"""Sections of many tensors, read in one call.

The kernels read gap streams of ``structured``, short ``rle``, and up to 4096 gaps of ``huffman``. All others
are left to the codec's ``decode``.
"""

from __future__ import annotations

import numpy as np

from wirecodec.arrays import Array
from wirecodec.kernels.compiler.jit import inline, kernel
from wirecodec.kernels.cpu.coding import gap_stream
from wirecodec.kernels.cpu.index.huffman_read import read_short
from wirecodec.kernels.cpu.simd.memory import copy_bytes
from wirecodec.kernels.cpu.threads import next_unit
from wirecodec.kernels.layout import HUFFMAN_KEYS, HUFFMAN_SPAN

U32 = np.uint32

BAD, OTHER = 1, 2
"""States of a section that was not read: a check fails, or the codec's ``decode`` must read it."""

MARGIN = 16
"""Bytes that ``gap_stream.read`` may load after a stream."""
MAX_RLE = 256
"""Bytes of an rle section above which ``rle.read`` is faster."""
MAX_VARINT = 4


@kernel
def read_gaps(
    words: Array,
    starts: Array,
    lengths: Array,
    sizes: Array,
    cuts: Array,
    indices: Array,
    states: Array,
    turns: Array,
) -> None:
    """Check and read each section of ``structured`` whose flags are 0.

    Args:
        words: u32, the container.
        starts: (n,) i64, the first word of each section.
        lengths: (n,) i64, bytes per section.
        sizes: (n,) i64, elements of each tensor.
        cuts: (n + 1,) i64, the place of each tensor's indices; 0 < r < d.
        indices: u32, written.
        states: (n,) u8, written: 0, BAD or OTHER.
        turns: counters of ``next_unit``; a unit is a tensor.
    """
    unit = next_unit(turns, -1)
    while unit >= 0:
        out = indices[cuts[unit] : cuts[unit + 1]]
        if lengths[unit] == 0:
            states[unit] = BAD
        elif words[starts[unit]] & U32(0xFF) != U32(0):
            states[unit] = OTHER
        else:
            section = _copy_section(words, starts[unit], lengths[unit])
            states[unit] = 0 if _read_stream(section, lengths[unit], sizes[unit], out) else BAD
        unit = next_unit(turns, unit)


@inline
def _copy_section(words: Array, start: int, length: int) -> Array:
    """Copy a section, which another thread may change, and append MARGIN zero bytes."""
    section = np.zeros(length + MARGIN, np.uint8)
    copy_bytes(words.view(np.uint8), 4 * start, length, section, 0)
    return section


@inline
def _read_stream(section: Array, length: int, d: int, out: Array) -> bool:
    """Check and read the gap stream after the flags; return whether it is sound."""
    if section[0] != 0:  # another thread changed the flags before the copy
        return False
    stop = gap_stream.read(section, 8, 8 * length, d, out)
    if stop < 0 or (stop + 7) >> 3 != length:
        return False
    return stop & 7 == 0 or section[length - 1] >> (stop & 7) == 0


@kernel
def read_rle(
    words: Array,
    starts: Array,
    lengths: Array,
    sizes: Array,
    cuts: Array,
    indices: Array,
    states: Array,
    turns: Array,
) -> None:
    """Check and read each short section of ``rle``; the arguments are those of ``read_gaps``."""
    unit = next_unit(turns, -1)
    while unit >= 0:
        if lengths[unit] > MAX_RLE:
            states[unit] = OTHER
        else:
            section = _copy_section(words, starts[unit], lengths[unit])
            out = indices[cuts[unit] : cuts[unit + 1]]
            states[unit] = 0 if _read_runs(section, lengths[unit], sizes[unit], out) else BAD
        unit = next_unit(turns, unit)


@inline
def _read_runs(section: Array, length: int, d: int, out: Array) -> bool:
    """Check and read pairs of varints; return whether they are sound."""
    at = count = index = np.int64(0)
    while at < length:
        absent, at = _read_varint(section, at, length)
        present, at = _read_varint(section, at, length)
        if at > length:
            return False
        index += absent + (count > 0)
        if present + 1 > out.size - count or index + present + 1 > d:
            return False
        for _ in range(present + 1):
            out[count] = np.uint32(index)
            count += 1
            index += 1
    return count == out.size


@inline
def _read_varint(section: Array, at: int, length: int) -> tuple[int, int]:
    """Return the varint at byte ``at``, and the byte after it: more than ``length`` if it is not sound."""
    value = np.int64(0)
    for n in range(MAX_VARINT):
        byte = np.int64(section[at + n])
        value |= (byte & 127) << (7 * n)
        if byte < 128:
            sound = at + n < length and (byte > 0 or n == 0)
            return value, at + n + 1 if sound else length + 1
    return value, length + 1


@kernel
def read_huffman(
    words: Array,
    starts: Array,
    lengths: Array,
    sizes: Array,
    cuts: Array,
    indices: Array,
    states: Array,
    turns: Array,
) -> None:
    """Check and read each section of ``huffman`` with at most 4096 gaps.

    The arguments are those of ``read_gaps`` above.
    """
    data = words.view(np.uint8)
    unit = next_unit(turns, -1)
    while unit >= 0:
        section = data[4 * starts[unit] : 4 * starts[unit] + lengths[unit]]
        out = indices[cuts[unit] : cuts[unit + 1]]
        if out.size > HUFFMAN_SPAN or (section.size > 0 and section[0] == HUFFMAN_KEYS):
            states[unit] = OTHER
        else:
            states[unit] = 0 if read_short(section, sizes[unit], out) else BAD
        unit = next_unit(turns, unit)
