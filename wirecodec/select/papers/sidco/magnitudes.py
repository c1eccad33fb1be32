"""Magnitudes of a tensor on the host, as the threshold search reads them."""

from __future__ import annotations

import numpy as np

from wirecodec.arrays import Array, bits_of, index_dtype, read_only
from wirecodec.select.base import require_finite
from wirecodec.select.papers.sidco.sweeps import MagnitudeSource, Sums
from wirecodec.select.threshold_common import grow


class Magnitudes(MagnitudeSource):
    """Magnitudes of flat ``x``; ``what`` names the selector in messages."""

    def __init__(self, x: Array, what: str, *, with_logs: bool = False) -> None:
        self._x, self._what, self._bits = x, what, read_only(bits_of(x))
        self._index = index_dtype(x.size)
        self._numbers = np.empty(0, self._index)
        super().__init__(x.dtype, with_logs=with_logs)

    @property
    def size(self) -> int:
        """Number of elements that a sweep reads now."""
        return int(self._bits.size)

    def narrow(self, threshold: float, *, expected: float, least: float = 0) -> int:
        """Count the elements that reach the threshold.

        If they are ``least`` or more, later sweeps are restricted to them. ``expected`` is a guess of that
        number; a good one saves memory and copies.
        """
        where, kept, n = self._exceedances(threshold, expected, bits=True)
        if n >= least:
            self._numbers, self._bits = where, read_only(kept[:n])
        return n

    def find_reaching(self, threshold: float, expected: int) -> Array:
        """Return the ascending indices of the elements that reach the threshold.

        ``expected`` is a guess of their number. This must be the last call: the result overwrites the stored
        indices.
        """
        where, _, n = self._exceedances(threshold, expected, bits=False)
        return where[:n]

    def find_top(self, k: int) -> tuple[Array, float]:
        """Return ascending indices of the k largest remaining elements, and their smallest magnitude."""
        from wirecodec.select.topk import TopK

        places = TopK(k=k).select(self._bits.view(self._x.dtype)).indices
        self.elements_read += self.size
        places = np.arange(self.size, dtype=self._index) if places is None else places
        least = np.min(self._bits[places] & self._bits.dtype.type(self._keys - 1))
        places = places.astype(self._index, copy=False)
        return self._numbers[places] if self._numbers.size else places, self._number(int(least))

    def _exceedances(self, threshold: float, expected: float, *, bits: bool) -> tuple[Array, Array, int]:
        """Return the indices of the elements that reach the threshold, their bits, and their number.

        Both arrays are longer than that number, the indices by at least ``SLACK``. Without ``bits`` the
        stored indices are compacted in place: a sweep never writes beyond what it has read.
        """
        from wirecodec.kernels.cpu.select import moments

        key, numbers = np.uint64(self._key(threshold)), read_only(self._numbers[: self.size])
        where = np.empty(0, self._index) if bits else self._numbers
        kept = np.empty(0, self._bits.dtype)
        at = n = 0
        more = int(expected + expected / 8) + 1024
        while at < self.size:
            capacity = min(n + more, self.size) + moments.SLACK
            where = where if where.size >= capacity else grow(where, n, capacity)
            kept = grow(kept, n, where.size) if bits else kept
            at, n = moments.collect_reaching(self._bits, key, numbers, at, where, kept, n)
            more = int(1.1 * n / max(at, 1) * (self.size - at)) + 4096
        self.elements_read += self.size
        if 2 * n < where.size and where is not self._numbers:
            where, kept = grow(where, n, n + moments.SLACK), kept[:n].copy()
        return where, kept, n

    def _sums(self, low: int, high: int, origin: float, with_logs: bool) -> tuple[Sums, int]:
        from wirecodec.kernels.cpu.select import moments

        blocks = 1 + -(-(self.size & ~63) // moments.BLOCK_SIZE)
        sums = np.empty((blocks, 5))
        interval = np.uint64(low), np.uint64(high), origin, self.scale, self._dtype == np.float16
        top = int(moments.sweep(self._bits, 0, blocks, *interval, with_logs, sums))
        return moments.add_blocks(sums), top

    def _raise_nonfinite(self) -> None:
        require_finite(self._x, self._what)
