"""Elements of a tensor as the search of ``budget`` reads them: samples, segments, and the largest ones."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.lib.stride_tricks import as_strided

from wirecodec.arrays import Array, bits_of, index_dtype, read_only
from wirecodec.kernels.budget_rules import MIN_STEP, step_ratio
from wirecodec.select.base import Selection, all_finite, require_finite
from wirecodec.select.budget.model import Histogram, sample_starts, spread_starts
from wirecodec.select.topk.exact import map_array_parts, select_top_k

EXCESS = 1.06
"""Memory of a sweep, in elements that are expected."""
MARGIN, RISE = 4, 6
"""Powers of 1/2, in octaves: how far a collection begins below a guess, and the rise of a guess per step."""
OCTAVES = {np.dtype(np.float32): 1 << 23, np.dtype(np.float64): 1 << 52}
"""An octave as a difference of keys."""
MANY_SWEPT = 2
"""Collected elements per element that a search asks for which show that the guess is far too low."""
MORE = 4
"""Factor by which the memory grows if it was too small."""
VALUES_PER_SEGMENT = 256
"""Selected elements of a segment."""
MIN_SEGMENT_VALUES, MAX_SEGMENT_VALUES, SEGMENT_DIVISOR = 2**15, 2**17, 64
"""Selected elements of all segments: a part of those of the tensor, within limits."""


class Source(Protocol):
    """Protocol of a tensor's elements, on the host or on a GPU. All results are on the host.

    Attributes:
        size: number of elements.
    """

    size: int

    def sample(self) -> Histogram:
        """Count elements from spread cache lines, or all if they are few."""
        ...

    def read_runs(self, starts: Array, length: int) -> Array:
        """Return the elements of runs that begin at (m,) i64 ``starts``, end to end."""
        ...

    def collect(self, count: int) -> Candidates:
        """Collect the ``count`` largest elements; all if count is the size. The first of ties go first."""
        ...

    def collect_from(self, least: int, expected: float) -> Candidates:
        """Collect all elements whose key is ``least`` or more, probably about ``expected``."""
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


class HostSource:
    """Elements of a tensor on the host.

    Args:
        x: (n,) any element type, n > 0.
        what: the selector's name, for messages.
    """

    def __init__(self, x: Array, what: str) -> None:
        self.x, self.what, self.size = x, what, x.size

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

    def collect_from(self, least: int, expected: float) -> Candidates:
        """Collect all elements whose key is ``least`` or more, probably about ``expected``.

        Raises EncodeError at the first NaN or Inf.
        """
        from wirecodec.kernels.cpu.select import terms, topk

        bits, size = read_only(bits_of(self.x)), self.size

        def sweep(start: int, stop: int) -> tuple[int, int, Array, Array]:
            capacity = min(int(EXCESS * expected / size * (stop - start)), stop - start) + terms.SWEEP_SLACK
            places, words = np.empty(capacity, np.int32), np.empty(capacity, bits.dtype)
            return start, topk.sweep(bits[start:stop], least, places, words), places, words

        parts = map_array_parts(size, sweep)
        if any(n < 0 for _, n, _, _ in parts):  # the memory was too small
            return self.collect_from(least, MORE * expected)
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


class SweptSource(HostSource):
    """Elements of a tensor, of which the largest were collected while they were computed.

    They answer the search's questions without another read of all elements, and with the same results.

    Args:
        x: (n,) float32 or float64, all finite.
        what: the selector's name, for messages.
        guess: from ``next_guess`` of the last step; 0 for none.
        swept: the elements whose key is ``lower_guess`` or more: their ascending positions, int32, and their
            bits; or None.
    """

    def __init__(self, x: Array, what: str, guess: int, swept: tuple[Array, Array] | None) -> None:
        super().__init__(x, what)
        self.guess = guess if swept else 0
        self.indices, self.words = swept or (np.empty(0, np.int32), bits_of(x[:0]))
        self.size_swept = self.words.size
        self.least, self.most = 0, 0  # the smallest key, and the most elements, that the search asked for

    def collect(self, count: int) -> Candidates:
        """Collect the ``count`` largest elements. The first of ties go first."""
        if count > self.words.size:
            return self._note(super().collect(count))
        from wirecodec.kernels.cpu.select import topk

        indices, words, octave = self.indices, self.words, OCTAVES[self.x.dtype]
        if count < words.size:  # in place: a further question is answered from all elements
            self.indices, self.words = indices[:0], words[:0]
            topk.keep_top_k(indices, words, count, low := lower_guess(self.guess, octave), low + 2 * octave)
        return self._note(Candidates(self.size, indices[:count], read_only(words[:count].view(self.x.dtype))))

    def collect_from(self, least: int, expected: float) -> Candidates:
        """Collect all elements whose key is ``least`` or more."""
        if not self.words.size or least < lower_guess(self.guess, OCTAVES[self.x.dtype]):
            return self._note(super().collect_from(least, expected))
        found = HostSource(self.words.view(self.x.dtype), self.what).collect_from(least, expected)
        return self._note(Candidates(self.size, self.indices[found.indices], found.values))

    def next_guess(self) -> int:
        """Return the key from which the next step's search probably asks for elements; 0 if that is unknown.

        Keys vary from step to step. A guess that follows the lowest of them seldom fails.
        """
        if not self.guess or self.size_swept > MANY_SWEPT * self.most:
            return self.least
        return min(self.least, self.guess + (OCTAVES[self.x.dtype] >> RISE))

    def _note(self, found: Candidates) -> Candidates:
        """Note what the search asked for."""
        self.least = min(self.least, found.least) if self.most else found.least
        self.most = max(self.most, found.values.size)
        return found


def lower_guess(guess: int, octave: int) -> int:
    """Return the key from which on elements are collected at a guess; 0 without one."""
    return max(guess - (octave >> MARGIN), 0)
