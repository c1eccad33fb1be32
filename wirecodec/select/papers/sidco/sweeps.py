"""Interface of a threshold search to magnitudes on any device.

Every call is one sweep over the elements, and the elements read are counted. ``narrow`` restricts later
sweeps to the elements that reach a threshold. Thresholds are in units of the tensor times ``scale``. This is
a power of two; it differs from 1 only if the largest magnitude would make sums of squares overflow or
underflow.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from typing import Any

import numpy as np

from wirecodec.arrays import bits_of
from wirecodec.select.papers.sidco.fits import Moments

Sums = tuple[int, float, float, float]
"""Count, Σ y, Σ y² and Σ ln y."""


class MagnitudeSource(ABC):
    """Magnitudes of the elements of a tensor without NaN and Inf.

    Attributes:
        scale: factor of all magnitudes.
        total: moments of all elements that are not 0.
        elements_read: elements read so far, over all sweeps.
    """

    def __init__(self, dtype: np.dtype[Any], *, with_logs: bool = False) -> None:
        self._dtype = dtype
        self._keys = 1 << (8 * dtype.itemsize - 1)  # number of keys: magnitudes without the sign
        self.scale, self.elements_read = 1.0, 0
        self.total, largest = self._sweep(1, self._keys, 0.0, with_logs)
        if not math.isfinite(largest):
            self._raise_nonfinite()
        room = 400 if dtype == np.float64 else 40
        if self.total.count and not 2.0**-room <= largest < 2.0**room:
            self.scale = 2.0 ** min(max(-math.frexp(largest)[1], -1000 if room > 40 else -100), 2.5 * room)
            self.total, _ = self._sweep(1, self._keys, 0.0, with_logs)

    @property
    @abstractmethod
    def size(self) -> int:
        """Number of elements that a sweep reads now."""

    @abstractmethod
    def narrow(self, threshold: float, *, expected: float, least: float = 0) -> int:
        """Count the elements that reach the threshold.

        If they are ``least`` or more, later sweeps are restricted to them. ``expected`` is a guess of that
        number; a good one saves memory and copies.
        """

    @abstractmethod
    def find_reaching(self, threshold: float, expected: int) -> Any:
        """Return the ascending indices of the elements that reach the threshold.

        ``expected`` is a guess of their number. This must be the last call: the result may overwrite the
        stored indices.
        """

    @abstractmethod
    def find_top(self, k: int) -> tuple[Any, float]:
        """Return the indices, ascending, of the k largest remaining elements, and their smallest magnitude.

        Ties go to the lower index.
        """

    @abstractmethod
    def _sums(self, low: int, high: int, origin: float, with_logs: bool) -> tuple[Sums, int]:
        """Return the sums over the keys from ``low`` to below ``high``, and the largest key of all.

        They are sums of y = |x| · scale - origin.
        """

    @abstractmethod
    def _raise_nonfinite(self) -> None:
        """Raise an error for the NaN or Inf that was found."""

    def round_up(self, threshold: float) -> float:
        """Return the smallest number of the element type, above 0, that is not below the threshold."""
        return self._number(self._key(threshold))

    def moments_above(self, threshold: float) -> Moments:
        """Return the moments of |x| - threshold over the elements that reach a result of ``round_up``."""
        return self._sweep(self._key(threshold), self._keys, threshold, False)[0]

    def moments_between(self, low: float, high: float) -> Moments:
        """Return the moments of |x| - low over the elements that reach ``low`` but not ``high``.

        Both thresholds are results of ``round_up``.
        """
        return self._sweep(self._key(low), self._key(high), low, False)[0]

    def _key(self, threshold: float) -> int:
        """Return the key, at least 1, of the smallest number of the element type not below the threshold."""
        with np.errstate(over="ignore", under="ignore"):
            near = np.array([threshold / self.scale]).astype(self._dtype)
        return max(int(bits_of(near)[0]) + (float(near[0]) < threshold / self.scale), 1)

    def _number(self, key: int) -> float:
        """Return the magnitude of a key, in units of the thresholds."""
        magnitude = np.array([key]).astype(f"u{self._dtype.itemsize}").view(self._dtype)
        return float(magnitude[0]) * self.scale

    def _sweep(self, low: int, high: int, origin: float, with_logs: bool) -> tuple[Moments, float]:
        """Return the moments of the keys from ``low`` to below ``high``, and the largest magnitude of all."""
        (count, total, squares, logs), top = self._sums(low, high, origin, with_logs)
        self.elements_read += self.size
        n = max(count, 1)
        mean = total / n
        moments = Moments(count, mean, max(squares / n - mean * mean, 0.0), logs / n)
        return moments, self._number(top) / self.scale
