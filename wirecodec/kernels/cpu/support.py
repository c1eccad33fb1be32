"""Loops over supports: checks of values and indices, and scattered addition."""

from __future__ import annotations

from typing import Any

from wirecodec.arrays import Array
from wirecodec.kernels.cpu.jit import kernel

__all__ = ["add_at", "find_disorder", "find_nonfinite"]


@kernel
def find_nonfinite(bits: Array, exponent: Any) -> int:
    """Return the first position with all exponent bits set (``exponent`` is their mask), or -1."""
    for start in range(0, bits.size, 4096):
        block = bits[start : start + 4096]
        found = False
        for i in range(block.size):
            found |= (block[i] & exponent) == exponent
        if found:
            for i in range(block.size):
                if (block[i] & exponent) == exponent:
                    return start + i
    return -1


@kernel
def find_disorder(indices: Array) -> int:
    """Return the first position i > 0 with indices[i] <= indices[i - 1], or -1."""
    disorder = False
    for i in range(1, indices.size):
        disorder |= indices[i] <= indices[i - 1]
    if disorder:
        for i in range(1, indices.size):
            if indices[i] <= indices[i - 1]:
                return i
    return -1


@kernel
def add_at(out: Array, indices: Array, values: Array, scale: Any) -> None:
    """Compute out[indices[i]] += scale * values[i] in the type of ``out``; the product is rounded first."""
    for i in range(indices.size):
        out[indices[i]] += scale * values[i]
