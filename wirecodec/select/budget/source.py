"""Elements of a tensor on the host, as the search of ``budget`` reads them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.lib.stride_tricks import as_strided

from wirecodec.arrays import Array, bits_of, read_only
from wirecodec.select.base import all_finite, require_finite
from wirecodec.select.budget.candidates import Candidates
from wirecodec.select.budget.model import Histogram, sample_starts
from wirecodec.select.topk.exact import map_array_parts, select_top_k
from wirecodec.sparse import index_dtype

EXCESS = 1.06
"""Memory of a sweep, in elements that are expected."""


@dataclass(frozen=True, eq=False)
class HostSource:
    """Elements of a tensor on the host.

    Attributes:
        x: (n,) any element type, n > 0.
        what: the selector's name, for messages.
    """

    x: Array
    what: str

    @property
    def size(self) -> int:
        """Number of elements."""
        return self.x.size

    def sample(self) -> Histogram:
        """Count elements from spread cache lines, or all if they are few."""
        starts, length = sample_starts(self.size)
        return Histogram.of_runs(self.x, starts, length, self.size)

    def read_runs(self, starts: Array, length: int) -> Array:
        """Return the elements of runs that begin at (m,) i64 ``starts``, end to end."""
        bits, width = bits_of(self.x), self.x.itemsize
        windows = as_strided(bits, (self.size - length + 1, length), (width, width), writeable=False)
        return read_only(windows[starts].reshape(-1).view(self.x.dtype))

    def collect(self, count: int) -> Candidates:
        """Collect the ``count`` largest elements. Raises EncodeError at the first NaN or Inf."""
        if count >= self.size:
            self.require_finite()
            return Candidates(self.size, None, self.x)
        indices, words = select_top_k(bits_of(self.x), count)
        return self._make_candidates(indices, words)

    def collect_from(self, least: int, expected: float) -> Candidates | None:
        """Collect all elements whose key is ``least`` or more; None if they are many more than expected.

        Raises EncodeError at the first NaN or Inf.
        """
        from wirecodec.kernels.cpu.select import terms, topk

        bits, size = read_only(bits_of(self.x)), self.size

        def sweep(start: int, stop: int) -> tuple[int, int, Array, Array]:
            capacity = min(int(EXCESS * expected / size * (stop - start)), stop - start) + terms.SWEEP_SLACK
            places, words = np.empty(capacity, np.int32), np.empty(capacity, bits.dtype)
            return start, topk.sweep(bits[start:stop], least, places, words), places, words

        parts = map_array_parts(size, sweep)
        if any(n < 0 for _, n, _, _ in parts):
            return None
        dtype = index_dtype(size)
        if len(parts) == 1:
            ((_, n, indices, words),) = parts
            return self._make_candidates(indices[:n], words[:n])
        indices = np.concatenate(
            [places[:n].astype(dtype) + dtype.type(start) for start, n, places, _ in parts]
        )
        return self._make_candidates(indices, np.concatenate([words[:n] for _, n, _, words in parts]))

    def _make_candidates(self, indices: Array, words: Array) -> Candidates:
        """Return candidates, after a check for NaN and Inf."""
        values = words.view(self.x.dtype)
        if not all_finite(values):
            self.require_finite()
        return Candidates(self.size, indices, values)

    def require_finite(self) -> None:
        """Raise EncodeError at the first NaN or Inf."""
        require_finite(self.x, self.what)
