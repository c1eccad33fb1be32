"""Entropy of changes: of the best code for positions and differences given the exponents of old elements."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np

from benchmarks.patches.cases import Case, bits
from wirecodec.arrays import Array

__all__ = ["compute_bound"]

WIDE = 200
"""Largest difference that has a symbol of its own, in units of the last place."""


def compute_bound(case: Case) -> float:
    """Return the bits per changed element.

    Whether an element changes, and by how many units of the last place, are independent given the old
    element's exponent and the tensor. The tables of chances cost nothing, so a code may need more. NaN if the
    elements are not floating-point numbers.
    """
    total, changed = 0.0, 0
    differences: dict[np.dtype[Any], list[tuple[Array, Array]]] = {}
    for name, x in case.old.items():
        try:
            mantissa = ml_dtypes.finfo(x.dtype).nmant
        except ValueError:
            return float("nan")
        old, new = bits(x), bits(case.new[name])
        exponents = ((old & old.dtype.type((1 << 8 * x.itemsize - 1) - 1)) >> mantissa).astype(np.int64)
        differ = old != new
        sizes, counts = np.bincount(exponents), np.bincount(exponents[differ])
        counts = np.pad(counts, (0, sizes.size - counts.size))
        total += float(np.sum(_entropy_of(sizes) - _entropy_of(counts) - _entropy_of(sizes - counts)))
        changed += int(counts.sum())
        steps = np.clip(_order(new[differ]) - _order(old[differ]), -WIDE, WIDE)
        differences.setdefault(x.dtype, []).append((exponents[differ], steps))
    for parts in differences.values():
        exponents, steps = (np.concatenate(some) for some in zip(*parts, strict=True))
        _, counts = np.unique(exponents * (4 * WIDE) + steps, return_counts=True)
        total += float(np.sum(_entropy_of(np.bincount(exponents))) - np.sum(_entropy_of(counts)))
    return total / changed if changed else float("nan")


def _entropy_of(counts: Array) -> Array:
    """Return n log2(n) of each count."""
    found: Array = counts * np.log2(np.maximum(counts, 1))
    return found


def _order(words: Array) -> Array:
    """Return the bits of floating-point numbers as integers in the order of the numbers."""
    magnitude = (words & words.dtype.type((1 << 8 * words.itemsize - 1) - 1)).astype(np.int64)
    found: Array = np.where(words >> (8 * words.itemsize - 1), -magnitude, magnitude)
    return found
