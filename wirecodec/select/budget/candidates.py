"""Candidates of ``budget``: the largest elements of a tensor, and segments of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from wirecodec.arrays import Array, bits_of, read_only
from wirecodec.kernels.budget_rules import MIN_STEP, step_ratio
from wirecodec.select.base import Selection
from wirecodec.select.budget.model import Histogram, spread_starts
from wirecodec.select.topk.exact import select_top_k
from wirecodec.sparse import index_dtype

VALUES_PER_SEGMENT = 256
"""Selected elements of a segment."""
MIN_SEGMENT_VALUES, MAX_SEGMENT_VALUES, SEGMENT_DIVISOR = 2**15, 2**17, 64
"""Selected elements of all segments: a part of those of the tensor, within limits."""


class Source(Protocol):
    """Protocol of a tensor's elements, on the host or on a GPU. All results are on the host."""

    @property
    def size(self) -> int:
        """Number of elements."""
        ...

    def sample(self) -> Histogram:
        """Count elements from spread cache lines, or all if they are few."""
        ...

    def read_runs(self, starts: Array, length: int) -> Array:
        """Return the elements of runs that begin at (m,) i64 ``starts``, end to end."""
        ...

    def collect(self, count: int) -> Candidates:
        """Collect the ``count`` largest elements; all if count is the size. The first of ties go first."""
        ...

    def collect_from(self, least: int, expected: float) -> Candidates | None:
        """Collect all elements whose key is ``least`` or more; None if they are many more than expected."""
        ...

    def require_finite(self) -> None:
        """Raise EncodeError at the first NaN or Inf."""
        ...


@dataclass(frozen=True, eq=False)
class Chosen:
    """Selected elements of a tensor, or of its segments.

    Attributes:
        indices: (k,) ascending, or None for all.
        values: (k,) at the indices.
        size: elements of the tensor or the segments.
        step: the quantizer's step, or None.
    """

    indices: Array | None
    values: Array
    size: int
    step: float | None

    def selection(self) -> Selection:
        """Return the Selection of a whole tensor."""
        return Selection(self.indices, values=None if self.indices is None else self.values, step=self.step)


class Candidates:
    """The largest elements of a tensor that are not 0, among which a search chooses."""

    def __init__(self, size: int, indices: Array | None, values: Array) -> None:
        self.size, self.indices, self.values = size, indices, values
        self.keys = read_only(bits_of(values))
        self.least = _smallest(self.keys) if values.size else 1
        self.nonzero = values.size
        if not self.least:
            self.nonzero = int(np.count_nonzero(self.keys << self.keys.dtype.type(1)))  # without the sign

    @property
    def complete(self) -> bool:
        """Whether all elements that are not 0 are candidates."""
        return self.indices is None or self.nonzero < self.values.size

    def top(self, k: int, takes_step: bool, shrink: float = 1.0) -> Chosen:
        """Return the k largest; ``shrink`` multiplies the step."""
        if k == 0:
            return Chosen(np.empty(0, index_dtype(self.size)), self.values[:0], self.size, None)
        indices, values, least = self.indices, self.values, self.least
        if k < values.size:
            places, words = select_top_k(self.keys, k)
            indices = places.astype(index_dtype(self.size)) if indices is None else indices[places]
            values, least = read_only(words.view(values.dtype)), _smallest(words)
        threshold = np.array([least], self.keys.dtype).view(values.dtype)
        step = float(threshold[0]) * step_ratio(k / self.size) * shrink
        step = step if step >= MIN_STEP else 0.0  # exact values
        return Chosen(indices, values, self.size, step if takes_step else None)

    def find_key(self, k: int) -> int:
        """Return the key of the k-th largest element."""
        return self.least if k >= self.values.size else _smallest(select_top_k(self.keys, k)[1])


def _smallest(bits: Array) -> int:
    """Return the smallest key of some elements."""
    from wirecodec.kernels.cpu.select import budget

    return int(budget.find_smallest_key(read_only(bits)))


def cut_segments(source: Source, count: float) -> Candidates:
    """Return segments of a tensor as a tensor of its own, with a part of the ``count`` largest elements."""
    wanted = min(max(count / SEGMENT_DIVISOR, MIN_SEGMENT_VALUES), MAX_SEGMENT_VALUES)
    number = int(wanted) // VALUES_PER_SEGMENT
    length = max(1, min(int(VALUES_PER_SEGMENT * source.size / count), source.size // number))
    values = source.read_runs(spread_starts(source.size, length, number), length)
    return Candidates(values.size, None, values)
