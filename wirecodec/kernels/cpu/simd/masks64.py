"""Masks and keys of 64 elements at a time.

Bit j of a mask is for element ``start + j``. All 64 elements must be within the array, which is contiguous.
Kernels process the remaining elements one by one, or load them with ``load_tail64``.

A *key* is an element's magnitude bits. Keys order as magnitudes do. Thresholds are keys.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from wirecodec.arrays import Array
from wirecodec.kernels.compiler.jit import inline
from wirecodec.kernels.cpu.simd.floats import add_floats, multiply_floats, splat_float
from wirecodec.kernels.cpu.simd.memory import copy_elements
from wirecodec.kernels.cpu.simd.vector import (
    bits_to_mask,
    load,
    mask_to_bits,
    reduce_max,
    select,
    splat,
    store,
)

U64 = np.uint64


@inline
def load_tail64(bits: Array) -> Array:
    """Return the elements after the last multiple of 64, padded with zeros."""
    last = np.zeros(64, bits.dtype)
    whole = bits.size & ~63
    copy_elements(bits, whole, bits.size - whole, last, 0)
    return last


@inline
def keys64(bits: Array, start: int) -> Any:
    """Load the keys of 64 floats, given as their bits."""
    return (load(bits, start, 64) << 1) >> 1


@inline
def at_least64(bits: Array, start: int, threshold: Any) -> np.uint64:
    """Return the mask of those of 64 floats, given as their bits, with a key of ``threshold`` or more."""
    return mask_to_bits((load(bits, start, 64) << 1) >= (U64(threshold) << U64(1)))


@inline
def above64(bits: Array, start: int, threshold: Any) -> np.uint64:
    """Return the mask of those of 64 floats, given as their bits, with a key above ``threshold``."""
    return mask_to_bits((load(bits, start, 64) << 1) > (U64(threshold) << U64(1)))


@inline
def at_most64(words: Array, start: int, limit: Any) -> np.uint64:
    """Return the mask of those of 64 unsigned words that are ``limit`` or less."""
    return mask_to_bits(load(words, start, 64) <= limit)


@inline
def negative64(bits: Array, start: int) -> np.uint64:
    """Return the mask of those of 64 floats, given as their bits, that are below zero; -0 is not."""
    return mask_to_bits(load(bits, start, 64) > (U64(1) << U64(8 * bits.itemsize - 1)))


@inline
def max_key64(bits: Array, start: int, mask: np.uint64) -> Any:
    """Return the largest key of those of 64 floats selected by ``mask``; 0 if none is."""
    keys = keys64(bits, start)
    return reduce_max(select(bits_to_mask(mask, 64), keys, keys ^ keys))


@inline
def adacomp_mask64(x: Array, gradient: Array, start: int, factor: float, top: Any) -> np.uint64:
    """Return the mask of x ≠ 0 and |x + factor · gradient| ≥ ``top``, each operation rounded."""
    values = load(x, start, 64)
    looked_ahead = add_floats(values, multiply_floats(load(gradient, start, 64), splat_float(factor, values)))
    return mask_to_bits((looked_ahead << 1) >= (U64(top) << U64(1))) & mask_to_bits((values << 1) != 0)


@inline
def store_by_mask64(out: Array, start: int, mask: np.uint64, zero: Any, one: Any) -> None:
    """Store 64 elements: ``one`` if the mask's bit is set, else ``zero``."""
    store(out, start, select(bits_to_mask(mask, 64), splat(one, 64), splat(zero, 64)))
