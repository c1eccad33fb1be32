"""Supports: which elements are there, gathering and adding at indices."""

from __future__ import annotations

from typing import Any

from wirecodec.arrays import Array
from wirecodec.kernels.cpu.jit import kernel

__all__ = ["add_at", "count_set", "fill_nonzero", "first_disorder", "first_nonfinite"]


@kernel
def count_set(bits: Array) -> int:
    """How many words are not 0."""
    count = 0
    for i in range(bits.size):
        count += bits[i] != 0
    return count


@kernel
def fill_nonzero(bits: Array, out: Array) -> int:
    """The positions of the words that are not 0, ascending, into ``out``, which has that room; how many."""
    n = 0
    for i in range(bits.size):
        if bits[i] != 0:
            if n == out.size:  # another thread writes to the array
                return n + 1
            out[n] = i
            n += 1
    return n


@kernel
def first_nonfinite(bits: Array, exponent: Any) -> int:
    """The first position whose exponent bits are all ones (``exponent`` is their mask), or -1."""
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
def first_disorder(indices: Array) -> int:
    """The first position i > 0 with indices[i] <= indices[i - 1], or -1."""
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
    """out[indices[i]] += scale * values[i], all in the type of ``out``; the product is rounded first."""
    for i in range(indices.size):
        out[indices[i]] += scale * values[i]
