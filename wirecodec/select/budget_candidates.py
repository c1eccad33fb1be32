"""Candidates of ``budget``: a sample of a tensor, its largest elements, and those of its segments."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from wirecodec.arrays import Array, bits_of, read_only
from wirecodec.select.base import Selection, all_finite, require_finite
from wirecodec.select.budget_model import step_ratio
from wirecodec.select.topk_exact import select_top_k
from wirecodec.sparse import index_dtype

__all__ = ["SEGMENT_CANDIDATES", "Candidates", "Chosen", "collect", "draw_sample"]

SAMPLE_LINES, MAX_SAMPLE_LINES, LINE = 1024, 8192, 16
"""Least and largest number of cache lines of a sample, and elements of each."""
ELEMENTS_PER_LINE = 4096
"""Elements of a tensor for which a sample has one line."""
SEGMENTS, SEGMENT_CANDIDATES, SEGMENT_DIVISOR = 128, 32_768, 8
"""Segments that are encoded for a prediction, and the candidates in all of them: a number, or a fraction."""
MIN_STEP = 2.0**-96
"""Smallest step that is not 0; ``error-bounded`` allows 2^-100."""


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
        self.keys = bits_of(values)
        self.mask = self.keys.dtype.type((1 << (8 * self.keys.itemsize - 1)) - 1)
        self.nonzero = int(np.count_nonzero(self.keys & self.mask))

    @property
    def complete(self) -> bool:
        """Whether all elements that are not 0 are candidates."""
        return self.indices is None or self.nonzero < self.values.size

    def top(self, k: int, takes_step: bool, shrink: float = 1.0) -> Chosen:
        """Return the k largest; ``shrink`` multiplies the step."""
        if k == 0:
            return Chosen(np.empty(0, index_dtype(self.size)), self.values[:0], self.size, None)
        indices, values = self.indices, self.values
        if k < values.size:
            places, words = select_top_k(self.keys, k)
            indices = places.astype(index_dtype(self.size)) if indices is None else indices[places]
            values = read_only(words.view(values.dtype))
        threshold = np.array([(bits_of(values) & self.mask).min()], self.keys.dtype).view(values.dtype)
        step = float(threshold[0]) * step_ratio(k / self.size) * shrink
        step = step if step >= MIN_STEP else 0.0  # exact values
        return Chosen(indices, values, self.size, step if takes_step else None)

    def segments(self) -> tuple[Candidates, float]:
        """Return the candidates in a part of the tensor as a tensor of its own, and their fraction of all."""
        wanted = max(SEGMENT_CANDIDATES, self.values.size // SEGMENT_DIVISOR)
        length = max(1, int(self.size * wanted / self.values.size / SEGMENTS))
        starts = np.arange(SEGMENTS) * (self.size - length) // (SEGMENTS - 1)
        size = SEGMENTS * length
        if self.indices is None:
            values = np.concatenate([self.values[start : start + length] for start in starts.tolist()])
            part = Candidates(size, None, values)
            return part, part.nonzero / self.nonzero
        edges = np.stack([starts, starts + length]).astype(self.indices.dtype)
        begins, ends = np.searchsorted(self.indices, edges).tolist()
        shifts = (starts - np.arange(SEGMENTS) * length).tolist()
        indices = [self.indices[a:b] - shift for a, b, shift in zip(begins, ends, shifts, strict=True)]
        values = np.concatenate([self.values[a:b] for a, b in zip(begins, ends, strict=True)])
        part = Candidates(size, np.concatenate(indices).astype(index_dtype(size)), values)
        return part, part.nonzero / self.nonzero


def collect(x: Array, count: int, what: str) -> Candidates:
    """Collect the ``count`` largest elements. Raises EncodeError at the first NaN or Inf."""
    if count >= x.size:
        require_finite(x, what)
        return Candidates(x.size, None, x)
    indices, words = select_top_k(bits_of(x), count)
    values = words.view(x.dtype)
    if not all_finite(values):
        require_finite(x, what)
    return Candidates(x.size, indices, values)


def draw_sample(x: Array) -> Array:
    """Return elements of ``x`` from evenly spread cache lines, or all if they are few."""
    if x.size <= 2 * SAMPLE_LINES * LINE:
        return x
    count = min(max(x.size // ELEMENTS_PER_LINE, SAMPLE_LINES), MAX_SAMPLE_LINES)
    stratum = x.size // LINE // count
    number = np.arange(count, dtype=np.uint64)
    offsets = (number * np.uint64(0x9E3779B97F4A7C15) >> np.uint64(33)) % np.uint64(stratum)
    lines = x[: x.size // LINE * LINE].reshape(-1, LINE)
    sample: Array = lines[(number * np.uint64(stratum) + offsets).astype(np.int64)].reshape(-1)
    return sample
