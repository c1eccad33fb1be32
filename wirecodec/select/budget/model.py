"""Model of the bytes of a selection: a histogram of magnitudes, whose bits the kernels predict."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from wirecodec.arrays import Array, bits_of, read_only
from wirecodec.kernels.budget_rules import (
    ELEMENTS_PER_LINE,
    FINENESS,
    HIGH_RATIO,
    LINE,
    LOW_RATIO,
    MAX_SAMPLE_LINES,
    MIN_COUNT,
    MIN_GAIN,
    SAMPLE_LINES,
    SECTION_BYTES,
    limit_cost,
)
from wirecodec.select.base import INFINITY_BITS

MANTISSA_BITS = 3
BINS_PER_OCTAVE = 1 << MANTISSA_BITS
"""Bits of the mantissa that number a bin, and bins per octave."""


def spread_starts(size: int, length: int, count: int) -> Array:
    """Return the first elements of ``count`` segments, one in each equal part, at irregular places."""
    part = size // count
    number = np.arange(count, dtype=np.uint64)
    offsets = (number * np.uint64(0x9E3779B97F4A7C15) >> np.uint64(33)) % np.uint64(part - length + 1)
    starts: Array = (number * np.uint64(part) + offsets).astype(np.int64)
    return starts


@lru_cache(maxsize=64)
def sample_starts(size: int) -> tuple[Array, int]:
    """Return the first elements of a sample's cache lines, and their length; few elements are one run."""
    if size <= 2 * SAMPLE_LINES * LINE:
        return read_only(np.zeros(1, np.int64)), size
    lines = min(max(size // ELEMENTS_PER_LINE, SAMPLE_LINES), MAX_SAMPLE_LINES)
    return read_only(spread_starts(size // LINE, 1, lines) * LINE), LINE


@dataclass(frozen=True, eq=False)
class Histogram:
    """Histogram of magnitudes, with the prediction of the bytes of the largest ones.

    Attributes:
        counts: (bins,) i64 magnitudes above 0; a bin is an exponent and three bits of the mantissa.
        scale: elements of the tensor per element that was counted.
        size: elements of the tensor.
        fineness: factor of the quantizer's step, of ``FINENESS``.
        index_cost: bytes of the positions, divided by those of independent ones.
    """

    counts: Array
    scale: float
    size: float
    fineness: float = 1.0
    index_cost: float = 1.0

    @classmethod
    def of_runs(cls, x: Array, starts: Array, length: int, size: int) -> Histogram:
        """Count the elements of runs of ``x``, a sample of a tensor of ``size``."""
        return cls(_count(x, starts, length), size / (length * starts.size), size)

    @classmethod
    def of_largest(cls, values: Array, size: int) -> Histogram:
        """Count the largest elements of a tensor of ``size``."""
        return cls(_count_all(values), 1.0, size)

    @property
    def finite(self) -> bool:
        """Whether no NaN and no Inf was counted."""
        return not self.counts[-BINS_PER_OCTAVE:].any()

    def with_largest(self, values: Array) -> Histogram:
        """Return the histogram of the tensor whose largest elements are ``values``, which are all counted."""
        counts, exact = np.rint(self.counts * self.scale).astype(np.int64), _count_all(values)
        least = int(np.argmax(exact > 0))
        counts[least] = max(counts[least], exact[least])
        counts[least + 1 :] = exact[least + 1 :]
        return Histogram(counts, 1.0, self.size, self.fineness, self.index_cost)

    def scaled(self, fraction: float) -> Histogram:
        """Return the histogram of a fraction of the tensor."""
        scale, size = self.scale * fraction, self.size * fraction
        return Histogram(self.counts, scale, size, self.fineness, self.index_cost)

    def fit(self, count: float, nbytes: float) -> Histogram:
        """Return the histogram whose positions take what a measurement of ``count`` elements leaves for them.

        Large elements of a gradient often lie together, which makes their positions cheaper.
        """
        values, both = self._predict(count, 0.0), self._predict(count, 1.0)
        return self._with(self.fineness, limit_cost(values, both, nbytes))

    def refine(self, nbytes: float) -> tuple[Histogram, float]:
        """Choose the fineness that has the least squared error for a number of bytes.

        Returns the model and its ``find_count``.
        """
        best, (best_count, least) = 1.0, self._search(nbytes, 1.0)
        for fineness in FINENESS:
            count, error = self._search(nbytes, fineness)
            if error > MIN_GAIN * least:
                break
            best, best_count, least = fineness, count, error
        return self._with(best, self.index_cost), max(best_count, MIN_COUNT)

    def find_count(self, nbytes: float) -> float:
        """Return how many elements are predicted to take a number of bytes, at least one half."""
        return max(self._search(nbytes, self.fineness)[0], MIN_COUNT)

    def _search(self, nbytes: float, fineness: float) -> tuple[float, float]:
        """Return the number of elements for a number of bytes at a fineness, and their squared error."""
        from wirecodec.kernels.cpu.select import budget

        bits, ratios = 8 * (nbytes - SECTION_BYTES), (fineness * LOW_RATIO, fineness * HIGH_RATIO)
        count, error = budget.find_count(self.counts, self.scale, self.size, bits, self.index_cost, *ratios)
        return float(count), float(error)

    def _with(self, fineness: float, index_cost: float) -> Histogram:
        return Histogram(self.counts, self.scale, self.size, fineness, index_cost)

    def predict_bytes(self, count: float) -> float:
        """Predict the bytes of the ``count`` largest elements."""
        return self._predict(count, self.index_cost)

    def _predict(self, count: float, index_cost: float) -> float:
        """Predict the bytes of the ``count`` largest elements at a cost of their positions."""
        from wirecodec.kernels.cpu.select import budget

        ratios = self.fineness * LOW_RATIO, self.fineness * HIGH_RATIO
        bits = budget.predict_bits(self.counts, self.scale, self.size, float(count), index_cost, *ratios)
        return float(bits) / 8 + SECTION_BYTES

    def predict_curve(self, thresholds: Array, unit: int) -> tuple[Array, Array, Array]:
        """Predict for several thresholds, (m,) f64 in units of 2^(exponent of the bin ``unit``).

        Returns bytes, number of elements, and by how much they lower the squared error, each (m,) f64.
        """
        from wirecodec.kernels.cpu.select import budget

        curve = np.empty((thresholds.size, 3))
        factors = self.index_cost, self.fineness * LOW_RATIO, self.fineness * HIGH_RATIO
        budget.predict_curve(self.counts, self.scale, self.size, unit, *factors, thresholds, curve)
        return curve[:, 0] / 8 + SECTION_BYTES, curve[:, 1], curve[:, 2]

    @property
    def top(self) -> int:
        """Number of the last bin that is not empty, or 0."""
        used = np.flatnonzero(self.counts)
        return int(used[-1]) if used.size else 0


def _count(x: Array, starts: Array, length: int) -> Array:
    """Count the magnitudes of segments; NaN and Inf are in the last bins."""
    from wirecodec.kernels.cpu.select import budget

    infinity = int(INFINITY_BITS[x.dtype])
    shift = (infinity & -infinity).bit_length() - MANTISSA_BITS - 1
    counts = np.zeros((infinity >> shift) + BINS_PER_OCTAVE, np.int64)
    budget.count_bins(read_only(bits_of(x)), read_only(starts), length, shift, counts)
    return counts


def _count_all(values: Array) -> Array:
    """Count the magnitudes of (n,) elements."""
    return _count(values, np.zeros(1, np.int64), values.size)


class ModelCosts:
    """Costs by entropy, as if ``rice`` and ``error-bounded`` encoded the selection; no container header."""

    overhead = 0
    takes_step = True

    def measure(self, indices: Array | None, values: Array, size: int, step: float | None) -> int:
        """Predict the bytes of the sections of ``values`` at ``indices`` of ``size`` elements."""
        if values.size == 0:
            return 0
        return math.ceil(Histogram.of_largest(values, size).predict_bytes(values.size))
