"""Errors of decoded curve pieces."""

from __future__ import annotations

import numpy as np

from wirecodec.arrays import Array
from wirecodec.kernels.compiler.jit import kernel

LANES = 16


@kernel
def sum_squares(y: Array, decoded: Array, factor: float, lengths: Array, error: Array, energy: Array) -> None:
    """Sum the squared error and the squared values of each piece.

    Args:
        y: (r,) float32 or float64, the values.
        decoded: (r,) float32 or float64, the decoded values.
        factor: factor from the unit of ``decoded`` to that of ``y``.
        lengths: (n,) points per piece; their sum is r.
        error: (n,) float64, written: Σ(factor · decoded - y)².
        energy: (n,) float64, written: Σy².
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
