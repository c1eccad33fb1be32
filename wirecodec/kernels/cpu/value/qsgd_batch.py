"""QSGD sections of many tensors in one call: the kernel of one section, tensor by tensor."""

from __future__ import annotations

import numpy as np

from wirecodec.arrays import Array
from wirecodec.kernels.cpu.jit import kernel
from wirecodec.kernels.cpu.threads import next_unit, sole_turns
from wirecodec.kernels.cpu.value.qsgd import UNIT, quantise

__all__ = ["write"]

U32 = np.uint32


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
        section[0], section[1] = U32(n), U32(bucket)  # norm max and the reserved field are 0
        body = 2 + (here.size + bucket - 1) // bucket
        scales = section[2:body].view(np.float32)
        units = sole_turns((here.size + UNIT - 1) // UNIT)
        quantise(here, bucket, n, streams[unit, 0], streams[unit, 1], False, scales, section[body:], units)
        unit = next_unit(turns, unit)
