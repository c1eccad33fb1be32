"""Sample of ``dgc``: positions drawn by counter hash, one per stratum."""

from __future__ import annotations

import numpy as np

from wirecodec.arrays import Array
from wirecodec.kernels.compiler.jit import kernel
from wirecodec.kernels.cpu.prng import draw32

U32 = np.uint32
U64 = np.uint64


@kernel
def draw_stratified(low: np.uint32, high: np.uint32, size: int, positions: Array) -> None:
    """Draw one position from each of n strata, whose lengths differ by at most one; ascending.

    Args:
        low, high: the halves of the stream.
        size: of the array, at least n.
        positions: (n,) int64, written.
    """
    n = positions.size
    for q in range(n):
        start = q * size // n
        length = (q + 1) * size // n - start
        drawn = U64(draw32(low, high, U32(q))) * U64(length) >> U64(32)
        positions[q] = start + np.int64(drawn)
