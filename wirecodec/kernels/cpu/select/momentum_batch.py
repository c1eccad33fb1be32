"""Momenta of many tensors that stop at the selected elements."""

from __future__ import annotations

import numpy as np

from wirecodec.arrays import Array
from wirecodec.kernels.compiler.jit import kernel
from wirecodec.kernels.cpu.simd.memory import view_at
from wirecodec.kernels.cpu.threads import next_unit


@kernel
def clear_at(
    indices: Array, cuts: Array, bases: Array, addresses: Array, sizes: Array, like: Array, turns: Array
) -> None:
    """Set elements of many arrays to 0.

    Args:
        indices: of all arrays.
        cuts: (n + 1,) i64, the place of each array's indices.
        bases: (n,) i64, subtracted from each array's indices.
        addresses: (n,) i64, of the arrays.
        sizes: (n,) i64, their elements.
        like: an array of their type.
        turns: counters of ``next_unit``; a unit is an array.
    """
    unit = next_unit(turns, -1)
    while unit >= 0:
        array = view_at(addresses[unit], sizes[unit], like)
        for i in range(cuts[unit], cuts[unit + 1]):
            array[np.int64(indices[i]) - bases[unit]] = 0
        unit = next_unit(turns, unit)
