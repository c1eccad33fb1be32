"""Sixty-four elements at a time: their keys, which of them pass, as the bits of one word, and back.

Bit j stands for element ``start + j``. All 64 elements must lie within the array, which is contiguous; a
kernel takes the rest one by one, or from ``last64``. A *key* is an element's magnitude bits, which order as
magnitudes do; thresholds are keys.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from wirecodec.arrays import Array
from wirecodec.kernels.cpu.jit import inline
from wirecodec.kernels.cpu.simd.floats import add_floats, multiply_floats, splat_float
from wirecodec.kernels.cpu.simd.vector import greatest, lanes_of, load, mask_bits, select, splat, store

__all__ = [
    "above64",
    "at_least64",
    "at_most64",
    "choose64",
    "keys64",
    "last64",
    "negative64",
    "reach64",
    "top64",
]

U64 = np.uint64


@inline
def last64(bits: Array) -> Array:
    """The elements after the last multiple of 64, and zeros."""
    last = np.zeros(64, bits.dtype)
    whole = bits.size & ~63
    last[: bits.size - whole] = bits[whole:]
    return last


@inline
def keys64(bits: Array, start: int) -> Any:
    """The keys of 64 floats, given as their bits."""
    return (load(bits, start, 64) << 1) >> 1


@inline
def at_least64(bits: Array, start: int, threshold: Any) -> np.uint64:
    """Which of 64 floats, given as their bits, have a key of ``threshold`` or more."""
    return mask_bits((load(bits, start, 64) << 1) >= (U64(threshold) << U64(1)))


@inline
def above64(bits: Array, start: int, threshold: Any) -> np.uint64:
    """Which of 64 floats, given as their bits, have a key of more than ``threshold``."""
    return mask_bits((load(bits, start, 64) << 1) > (U64(threshold) << U64(1)))


@inline
def at_most64(words: Array, start: int, limit: Any) -> np.uint64:
    """Which of 64 unsigned words are ``limit`` or less."""
    return mask_bits(load(words, start, 64) <= limit)


@inline
def negative64(bits: Array, start: int) -> np.uint64:
    """Which of 64 floats, given as their bits, are below zero; -0 is not."""
    return mask_bits(load(bits, start, 64) > (U64(1) << U64(8 * bits.itemsize - 1)))


@inline
def top64(bits: Array, start: int, mask: np.uint64) -> Any:
    """The greatest key of those of 64 floats whose bits are set in ``mask``; 0 for none."""
    keys = keys64(bits, start)
    return greatest(select(lanes_of(mask, 64), keys, keys ^ keys))


@inline
def reach64(x: Array, gradient: Array, start: int, factor: float, top: Any) -> np.uint64:
    """Which of 64 elements have x ≠ 0 and |x + factor · gradient| ≥ ``top``, each operation rounded."""
    here = load(x, start, 64)
    ahead = add_floats(here, multiply_floats(load(gradient, start, 64), splat_float(factor, here)))
    return mask_bits((ahead << 1) >= (U64(top) << U64(1))) & mask_bits((here << 1) != 0)


@inline
def choose64(out: Array, start: int, mask: np.uint64, zero: Any, one: Any) -> None:
    """Write 64 elements: ``one`` where the mask's bit is set, ``zero`` elsewhere."""
    store(out, start, select(lanes_of(mask, 64), splat(one, 64), splat(zero, 64)))
