"""A tensor's magnitudes, as a search for a threshold sees them: moments, and what reaches a threshold.

Every question is one sweep over the elements, and sweeps are counted. ``narrow`` puts those that exceed a
threshold aside, so that later sweeps go over ever fewer. Thresholds are in units of the tensor times
``scale``, a power of two, 1 unless the tensor's largest magnitude would overflow sums of squares or
underflow them.
"""

from __future__ import annotations

import math

import numpy as np

from wirecodec.arrays import Array, bits_of, read_only
from wirecodec.select.above import with_room
from wirecodec.select.base import finite_or_raise
from wirecodec.select.fits import Moments
from wirecodec.sparse import index_dtype

__all__ = ["Magnitudes"]


class Magnitudes:
    """The magnitudes of flat ``x``, of which ``what`` carries no NaN or Inf.

    Attributes:
        total: moments of all elements that are not 0.
        swept: elements looked at so far, over all sweeps.
    """

    def __init__(self, x: Array, what: str, *, with_logs: bool = False) -> None:
        self._x, self._bits = x, read_only(bits_of(x))
        self._index = index_dtype(x.size)
        self._numbers = np.empty(0, self._index)
        self._keys = 1 << (8 * x.itemsize - 1)  # all but the sign
        self._half = x.dtype == np.float16
        self.scale, self.swept = 1.0, 0
        self.total, largest = self._sweep(1, self._keys, 0.0, with_logs)
        if not math.isfinite(largest):
            finite_or_raise(x, what)
        room = 400 if x.dtype == np.float64 else 40
        if self.total.count and not 2.0**-room <= largest < 2.0**room:
            self.scale = 2.0 ** min(max(-math.frexp(largest)[1], -1000 if room > 40 else -100), 2.5 * room)
            self.total, _ = self._sweep(1, self._keys, 0.0, with_logs)

    @property
    def size(self) -> int:
        """How many elements a sweep goes over now."""
        return int(self._bits.size)

    def settled(self, threshold: float) -> float:
        """The least number of the element type that is not below the threshold, above 0."""
        return self._number(self._key(threshold))

    def beyond(self, threshold: float) -> Moments:
        """Moments of the excess |x| - threshold of the elements that reach a settled threshold."""
        return self._sweep(self._key(threshold), self._keys, threshold, False)[0]

    def between(self, low: float, high: float) -> Moments:
        """Moments of the excess |x| - low of the elements that reach ``low`` but not ``high``; settled."""
        return self._sweep(self._key(low), self._key(high), low, False)[0]

    def narrow(self, threshold: float, *, expected: float, least: float = 0) -> int:
        """How many elements reach the threshold; if ``least`` do, later sweeps go over those alone.

        A good guess of how many that is saves memory and copies.
        """
        where, kept, n = self._exceedances(threshold, expected, bits=True)
        if n >= least:
            self._numbers, self._bits = where, read_only(kept[:n])
        return n

    def reaching(self, threshold: float, expected: int) -> Array:
        """Ascending indices of the elements that reach the threshold, with a guess of their number.

        No question may follow: they take the place of the numbers that were put aside.
        """
        where, _, n = self._exceedances(threshold, expected, bits=False)
        return where[:n]

    def top(self, k: int) -> tuple[Array, float]:
        """Ascending indices of the k largest that are left, ties to the lower index, and the least one."""
        from wirecodec.select.topk import TopK

        found = TopK(k=k).select(self._bits.view(self._x.dtype)).indices
        self.swept += self.size
        found = np.arange(self.size, dtype=self._index) if found is None else found
        least = np.min(self._bits[found] & self._bits.dtype.type(self._keys - 1))
        found = found.astype(self._index, copy=False)
        return self._numbers[found] if self._numbers.size else found, self._number(int(least))

    def _exceedances(self, threshold: float, expected: float, *, bits: bool) -> tuple[Array, Array, int]:
        """Numbers of those that reach the threshold and, with ``bits``, those; and how many that is.

        Both have room behind them, the numbers at least ``SLACK``. Without ``bits`` numbers put aside are
        thinned out in place: a sweep never writes beyond what it has read.
        """
        from wirecodec.kernels.cpu import moments

        key, numbers = np.uint64(self._key(threshold)), read_only(self._numbers[: self.size])
        where = np.empty(0, self._index) if bits else self._numbers
        kept = np.empty(0, self._bits.dtype)
        at = n = 0
        more = int(expected + expected / 8) + 1024
        while at < self.size:
            room = min(n + more, self.size) + moments.SLACK
            where = where if where.size >= room else with_room(where, n, room)
            kept = with_room(kept, n, where.size) if bits else kept
            at, n = moments.exceedances(self._bits, key, numbers, at, where, kept, n)
            more = int(1.1 * n / max(at, 1) * (self.size - at)) + 4096
        self.swept += self.size
        if 2 * n < where.size and where is not self._numbers:
            where, kept = with_room(where, n, n + moments.SLACK), kept[:n].copy()
        return where, kept, n

    def _key(self, threshold: float) -> int:
        """The key of the least number of the element type that is not below the threshold, at least 1."""
        with np.errstate(over="ignore", under="ignore"):
            near = np.array([threshold / self.scale]).astype(self._x.dtype)
        return max(int(bits_of(near)[0]) + (float(near[0]) < threshold / self.scale), 1)

    def _number(self, key: int) -> float:
        """The magnitude of a key, in units of the thresholds."""
        found = np.array([key]).astype(self._bits.dtype).view(self._x.dtype)
        return float(found[0]) * self.scale

    def _sweep(self, low: int, high: int, origin: float, with_logs: bool) -> tuple[Moments, float]:
        """Moments of the keys from ``low`` to below ``high``, and the largest magnitude of all."""
        from wirecodec.kernels.cpu import moments

        blocks = 1 + -(-(self.size & ~63) // moments.BLOCK)
        sums = np.empty((blocks, 5))
        interval = np.uint64(low), np.uint64(high), origin, self.scale, self._half
        top = int(moments.sweep(self._bits, 0, blocks, *interval, with_logs, sums))
        count, total, squares, logs = moments.fold(sums)
        self.swept += self.size
        largest = self._number(top) / self.scale
        n = max(count, 1)
        mean = total / n
        return Moments(count, mean, max(squares / n - mean * mean, 0.0), logs / n), largest
