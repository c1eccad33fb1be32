"""Elements of smallest draw, for ``randomk``: no read of any array, one hash per element."""

from __future__ import annotations

import numpy as np

from wirecodec.arrays import Array
from wirecodec.kernels.compiler.jit import kernel
from wirecodec.kernels.cpu.prng import draw32
from wirecodec.kernels.cpu.simd.masks64 import at_most64
from wirecodec.kernels.cpu.simd.words import low_bits_mask, trailing_zeros

U32 = np.uint32
U64 = np.uint64

SLACK = 64
"""Elements beyond the expected number that the outputs of ``collect_draws`` must have."""


@kernel
def collect_draws(
    low: np.uint32, high: np.uint32, size: int, limit: np.uint32, found: Array, draws: Array
) -> int:
    """Collect the elements below ``size`` with a draw of ``limit`` or less, ascending, and their draws.

    Args:
        low, high: the halves of the stream.
        size: at most 2^32.
        limit: the largest draw that is collected.
        found: indices, written.
        draws: u32, written; as long as ``found``.

    Returns their number, or -1 if the buffers are too small.
    """
    count = 0
    block = np.empty(64, np.uint32)
    for start in range(0, size, 64):
        if found.size - count < 64:
            return -1
        for j in range(64):
            block[j] = draw32(low, high, U32(U32(start) + U32(j)))
        mask = at_most64(block, 0, limit) & low_bits_mask(size - start)
        while mask != U64(0):
            j = trailing_zeros(mask)
            found[count] = start + j
            draws[count] = block[j]
            count += 1
            mask &= mask - U64(1)
    return count
