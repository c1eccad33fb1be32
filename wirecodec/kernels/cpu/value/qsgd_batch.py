"""QSGD sections of many tensors, or one short section, in one call: the kernel of one section."""

from __future__ import annotations

import numpy as np

from wirecodec.arrays import Array
from wirecodec.kernels.compiler.jit import inline, kernel
from wirecodec.kernels.cpu.threads import next_unit, sole_turns
from wirecodec.kernels.cpu.value.qsgd import UNIT, are_scales, dequantise, quantise
from wirecodec.kernels.layout import PACK_BLOCK

U32 = np.uint32
MAX_BUCKET = 2**24


@kernel
def write(
    bits: Array,
    cuts: Array,
    bucket: int,
    n: int,
    streams: Array,
    words: Array,
    starts: Array,
    lengths: Array,
    turns: Array,
) -> None:
    """Write each tensor's section, for norm max and buckets of at most UNIT values.

    Args:
        bits: u32, binary32 bits of all tensors' values, all finite.
        cuts: (t + 1,) i64, the place of each tensor's values; each tensor has at least one.
        bucket: values per scale.
        n: bits per code.
        streams: (t, 2) u32, the halves of each tensor's random stream.
        words: u32, written at the sections.
        starts: (t,) i64, the first word of each section.
        lengths: (t,) i64, words per section.
        turns: counters of ``next_unit``; a unit is a tensor.
    """
    unit = next_unit(turns, -1)
    while unit >= 0:
        here = bits[cuts[unit] : cuts[unit + 1]]
        section = words[starts[unit] : starts[unit] + lengths[unit]]
        _write_section(here, bucket, n, streams[unit, 0], streams[unit, 1], section)
        unit = next_unit(turns, unit)


@kernel
def write_short(bits: Array, bucket: int, n: int, low: np.uint32, high: np.uint32, size: int) -> Array:
    """Return the section of one tensor as ``size`` u32 words.

    Args:
        bits, bucket, n: as for ``write``.
        low, high: halves of the random stream.
        size: words of the section.
    """
    section = np.empty(size, np.uint32)
    _write_section(bits, bucket, n, low, high, section)
    return section


@inline
def _write_section(bits: Array, bucket: int, n: int, low: np.uint32, high: np.uint32, section: Array) -> None:
    """Write one section."""
    section[0], section[1] = U32(n), U32(bucket)  # norm max and the reserved field are 0
    body = 2 + (bits.size + bucket - 1) // bucket
    scales = section[2:body].view(np.float32)
    units = sole_turns((bits.size + UNIT - 1) // UNIT)
    quantise(bits, bucket, n, low, high, False, scales, section[body:], units)


@kernel
def read(
    words: Array,
    starts: Array,
    lengths: Array,
    smallest: np.float32,
    largest: np.float32,
    cuts: Array,
    out: Array,
    faults: Array,
    turns: Array,
) -> None:
    """Check and read each tensor's section.

    Args:
        words: u32, the container.
        starts: (t,) i64, the first word of each section.
        lengths: (t,) i64, bytes per section.
        smallest, largest: range of the scales that are not 0.
        cuts: (t + 1,) i64, the place of each tensor's values; each tensor has at least one.
        out: u32, written: binary32 bits of the values.
        faults: (t,) bool, written: whether a section fails a check.
        turns: counters of ``next_unit``; a unit is a tensor.
    """
    unit = next_unit(turns, -1)
    while unit >= 0:
        section = words[starts[unit] : starts[unit] + (lengths[unit] >> 2)]
        whole = lengths[unit] & 3 == 0
        values = out[cuts[unit] : cuts[unit + 1]]
        faults[unit] = not (whole and _read_section(section, smallest, largest, values))
        unit = next_unit(turns, unit)


@kernel
def read_short(section: Array, smallest: np.float32, largest: np.float32, values: Array) -> bool:
    """Check and read one section of u32 words into (r,) u32; return whether it is sound; see ``read``."""
    return _read_section(section, smallest, largest, values)


@inline
def _read_section(section: Array, smallest: np.float32, largest: np.float32, values: Array) -> bool:
    """Check and read one section; return whether it is sound."""
    if section.size < 2:
        return False
    head, bucket = np.int64(section[0]), np.int64(section[1])
    bits, norm, reserved = head & 0xFF, head >> 8 & 0xFF, head >> 16
    if bits < 2 or bits > 8 or norm > 1 or reserved or bucket % 16 or bucket < 16 or bucket > MAX_BUCKET:
        return False
    r = values.size
    body = 2 + (r + bucket - 1) // bucket
    rest = (r % PACK_BLOCK) * bits
    if section.size != body + (PACK_BLOCK * bits >> 5) * (r // PACK_BLOCK) + ((rest + 31) >> 5):
        return False
    if rest & 31 and section[section.size - 1] >> U32(rest & 31):
        return False
    scale_bits = section[2:body].copy()  # they are read twice
    if not are_scales(scale_bits, smallest, largest):
        return False
    bad = np.zeros(1, np.bool_)
    units = sole_turns((r + UNIT - 1) // UNIT)
    dequantise(section[body:], bucket, bits, scale_bits.view(np.float32), values, bad, units)
    return not bad[0]
