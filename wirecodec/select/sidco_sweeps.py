"""What a search for a threshold asks of magnitudes, wherever they lie: moments, and what reaches a threshold.

Every question is one sweep over the elements, and sweeps are counted. ``narrow`` puts those that exceed a
threshold aside, so that later sweeps go over ever fewer. Thresholds are in units of the tensor times
``scale``, a power of two, 1 unless the tensor's largest magnitude would overflow sums of squares or
underflow them.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from typing import Any

import numpy as np

from wirecodec.arrays import bits_of
from wirecodec.select.sidco_fits import Moments

__all__ = ["MagnitudeSource", "Sums"]

Sums = tuple[int, float, float, float]
"""Count, Σ y, Σ y² and Σ ln y."""


class MagnitudeSource(ABC):
    """The magnitudes of elements of a type, of which none may be NaN or Inf.

    Attributes:
        scale: what magnitudes are multiplied with.
        total: moments of all elements that are not 0.
        swept: elements looked at so far, over all sweeps.
    """

    def __init__(self, dtype: np.dtype[Any], *, with_logs: bool = False) -> None:
        self._dtype = dtype
        self._keys = 1 << (8 * dtype.itemsize - 1)  # all but the sign
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
        """How many elements a sweep goes over now."""

    @abstractmethod
    def narrow(self, threshold: float, *, expected: float, least: float = 0) -> int:
        """How many elements reach the threshold; if ``least`` do, later sweeps go over those alone.

        A good guess of how many that is saves memory and copies.
        """

    @abstractmethod
    def find_reaching(self, threshold: float, expected: int) -> Any:
        """Ascending indices of the elements that reach the threshold, with a guess of their number.

        No question may follow: they may take the place of the numbers that were put aside.
        """

    @abstractmethod
    def find_top(self, k: int) -> tuple[Any, float]:
        """Ascending indices of the k largest that are left, ties to the lower index, and the least one."""

    @abstractmethod
    def _sums(self, low: int, high: int, origin: float, with_logs: bool) -> tuple[Sums, int]:
        """Sums over the keys from ``low`` to below ``high``, y = |x| · scale - origin; the largest key."""

    @abstractmethod
    def _raise_nonfinite(self) -> None:
        """Raise, since there is a NaN or Inf."""

    def round_up(self, threshold: float) -> float:
        """The least number of the element type that is not below the threshold, above 0."""
        return self._number(self._key(threshold))

    def moments_above(self, threshold: float) -> Moments:
        """Moments of the excess |x| - threshold of the elements that reach a settled threshold."""
        return self._sweep(self._key(threshold), self._keys, threshold, False)[0]

    def moments_between(self, low: float, high: float) -> Moments:
        """Moments of the excess |x| - low of the elements that reach ``low`` but not ``high``; settled."""
        return self._sweep(self._key(low), self._key(high), low, False)[0]

    def _key(self, threshold: float) -> int:
        """The key of the least number of the element type that is not below the threshold, at least 1."""
        with np.errstate(over="ignore", under="ignore"):
            near = np.array([threshold / self.scale]).astype(self._dtype)
        return max(int(bits_of(near)[0]) + (float(near[0]) < threshold / self.scale), 1)

    def _number(self, key: int) -> float:
        """The magnitude of a key, in units of the thresholds."""
        found = np.array([key]).astype(f"u{self._dtype.itemsize}").view(self._dtype)
        return float(found[0]) * self.scale

    def _sweep(self, low: int, high: int, origin: float, with_logs: bool) -> tuple[Moments, float]:
        """Moments of the keys from ``low`` to below ``high``, and the largest magnitude of all."""
        (count, total, squares, logs), top = self._sums(low, high, origin, with_logs)
        self.elements_read += self.size
        n = max(count, 1)
        mean = total / n
        moments = Moments(count, mean, max(squares / n - mean * mean, 0.0), logs / n)
        return moments, self._number(top) / self.scale
