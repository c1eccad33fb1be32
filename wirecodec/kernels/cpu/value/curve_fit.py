"""How far decoded pieces are from what was encoded."""

from __future__ import annotations

import numpy as np

from wirecodec.arrays import Array
from wirecodec.kernels.cpu.jit import kernel

__all__ = ["sum_squares"]

LANES = 16


@kernel
def sum_squares(y: Array, decoded: Array, factor: float, lengths: Array, error: Array, energy: Array) -> None:
    """For each piece the square of ``decoded`` times ``factor`` less ``y``, and the square of ``y``.

    Args:
        y, decoded: (r,) float32 or float64.
        factor: from the unit of ``decoded`` to that of ``y``.
        lengths: (n,) in all r.
        error, energy: (n,) float64, written.
    """
    errors, energies = np.empty(LANES), np.empty(LANES)
    start = 0
    for piece in range(lengths.size):
        stop = start + np.int64(lengths[piece])
        errors[:], energies[:] = 0.0, 0.0
        whole = start + ((stop - start) & ~(LANES - 1))
        for i in range(start, whole, LANES):
            for j in range(LANES):
                v = np.float64(y[i + j])
                d = np.float64(decoded[i + j]) * factor - v
                errors[j] += d * d
                energies[j] += v * v
        for i in range(whole, stop):
            v = np.float64(y[i])
            d = np.float64(decoded[i]) * factor - v
            errors[0] += d * d
            energies[0] += v * v
        error[piece], energy[piece] = errors.sum(), energies.sum()
        start = stop
