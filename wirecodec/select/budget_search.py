"""Search of ``budget``: how many elements, and which step, spend a number of bytes.

sample      magnitudes from everywhere give a first count by a model of the bytes
candidates  one read collects the largest elements, half as many again as that count
segments    runs of the tensor are encoded as its codecs do, which gives the count within a few per cent
tensor      the selection is encoded; the count is corrected until the bytes are within the band
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from wirecodec.arrays import Array, bits_of, read_only
from wirecodec.select.base import Costs, Selection, all_finite, require_finite
from wirecodec.select.budget_model import bits_per_value, index_bits, step_ratio
from wirecodec.select.threshold_common import widen
from wirecodec.select.topk_exact import select_top_k
from wirecodec.sparse import index_dtype

__all__ = ["search"]

SAMPLE_LINES, MAX_SAMPLE_LINES, LINE = 1024, 8192, 16
"""Least and largest number of cache lines of a sample, and elements of each."""
ELEMENTS_PER_LINE = 4096
"""Elements of a tensor for which a sample has one line."""
MODEL_VALUES = 1024
"""Magnitudes, evenly spaced by rank, that the model of the bytes looks at."""
SEGMENTS, SEGMENT_CANDIDATES, SEGMENT_DIVISOR = 64, 32_768, 16
"""Segments that are encoded for a prediction, and the candidates in all of them: a number, or a fraction."""
MIN_ROOM = 16
"""Bytes below which a search ends."""
MAX_TRIES = 8
POWER = 0.85
"""Typical power of the count with which the bytes grow."""
JUMPS = 6
"""Counts that are tried above the largest one found, up to half as many again."""
SMALL_BUDGET = 512
"""Bytes up to which these counts are always tried."""
MARGIN, LARGE_MARGIN, LARGE_COUNT = 1.5, 1.2, 2**18
"""Candidates per element of the first count; the second applies from the third number of elements."""
MIN_STEP = 2.0**-96
"""Smallest step that is not 0; ``error-bounded`` allows 2^-100."""


@dataclass(frozen=True)
class _Band:
    """Parts of the budget that a search spends.

    Attributes:
        aim: at which it aims.
        least: which it accepts.
    """

    aim: float
    least: float


SMALL_BAND, LARGE_BAND = _Band(0.99, 0.98), _Band(0.982, 0.958)
"""Bands of tensors of few candidates, and of those for which a second measurement takes long."""


@dataclass(frozen=True, eq=False)
class _Chosen:
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


def search(x: Array, capacity: int, costs: Costs, what: str) -> Selection:
    """Select elements of ``x`` whose container takes at most ``capacity`` bytes, and nearly as many.

    Args:
        x: (n,) any element type, n > 0.
        capacity: bytes.
        costs: measures the bytes of a selection.
        what: the selector's name, for messages.

    Raises EncodeError at the first NaN or Inf.
    """
    budget = capacity - costs.overhead
    sample = _sample(x)
    if not all_finite(sample):
        require_finite(x, what)
    guess = _guess_count(sample, x.size, budget)
    while True:
        margin = MARGIN if guess < LARGE_COUNT else LARGE_MARGIN
        candidates = _collect(x, min(x.size, int(guess * margin) + 256), what)
        found = _fit(candidates, budget, costs, guess)
        if found is not None:
            return found.selection()
        guess *= 2


class _Candidates:
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

    def top(self, k: int, takes_step: bool, shrink: float = 1.0) -> _Chosen:
        """Return the k largest; ``shrink`` multiplies the step."""
        if k == 0:
            return _Chosen(np.empty(0, index_dtype(self.size)), self.values[:0], self.size, None)
        indices, values = self.indices, self.values
        if k < values.size:
            places, words = select_top_k(self.keys, k)
            indices = places.astype(index_dtype(self.size)) if indices is None else indices[places]
            values = read_only(words.view(values.dtype))
        threshold = np.array([(bits_of(values) & self.mask).min()], self.keys.dtype).view(values.dtype)
        step = float(threshold[0]) * step_ratio(k / self.size) * shrink
        step = step if step >= MIN_STEP else 0.0  # exact values
        return _Chosen(indices, values, self.size, step if takes_step else None)

    def segments(self) -> tuple[_Candidates, float]:
        """Return the candidates in a part of the tensor as a tensor of its own, and their fraction of all."""
        wanted = max(SEGMENT_CANDIDATES, self.values.size // SEGMENT_DIVISOR)
        length = max(1, int(self.size * wanted / self.values.size / SEGMENTS))
        starts = np.arange(SEGMENTS) * (self.size - length) // (SEGMENTS - 1)
        size = SEGMENTS * length
        if self.indices is None:
            values = np.concatenate([self.values[start : start + length] for start in starts.tolist()])
            part = _Candidates(size, None, values)
            return part, part.nonzero / self.nonzero
        edges = np.stack([starts, starts + length]).astype(self.indices.dtype)
        begins, ends = np.searchsorted(self.indices, edges).tolist()
        shifts = (starts - np.arange(SEGMENTS) * length).tolist()
        indices = [self.indices[a:b] - shift for a, b, shift in zip(begins, ends, shifts, strict=True)]
        values = np.concatenate([self.values[a:b] for a, b in zip(begins, ends, strict=True)])
        part = _Candidates(size, np.concatenate(indices).astype(index_dtype(size)), values)
        return part, part.nonzero / self.nonzero


def _collect(x: Array, count: int, what: str) -> _Candidates:
    """Collect the ``count`` largest elements. Raises EncodeError at the first NaN or Inf."""
    if count >= x.size:
        require_finite(x, what)
        return _Candidates(x.size, None, x)
    indices, words = select_top_k(bits_of(x), count)
    values = words.view(x.dtype)
    if not all_finite(values):
        require_finite(x, what)
    return _Candidates(x.size, indices, values)


def _fit(candidates: _Candidates, budget: int, costs: Costs, guess: float) -> _Chosen | None:
    """Return the selection that spends the budget, or None if more candidates are needed."""
    band = SMALL_BAND
    if candidates.values.size >= 2 * SEGMENT_CANDIDATES:
        band = LARGE_BAND
        part, fraction = candidates.segments()
        if part.nonzero:
            guess = _Trial(part, costs, budget * fraction, band).predict_count(guess * fraction) / fraction
    trial = _Trial(candidates, costs, budget, band)
    trial.search_count(guess)
    if trial.has_room and trial.count == trial.most and not candidates.complete:
        return None
    if trial.count < trial.most and (trial.has_room or budget <= SMALL_BUDGET):
        trial.search_beyond()
    if trial.has_room and trial.count and costs.takes_step:
        trial.refine_step()
    return trial.best


class _Trial:
    """Selections that were measured, and the best of them: the last one that fitted the budget.

    Args:
        candidates: among which elements are selected.
        costs: measure the selections.
        budget: bytes.
        band: parts of the budget to spend.
    """

    def __init__(self, candidates: _Candidates, costs: Costs, budget: float, band: _Band) -> None:
        self.candidates, self.costs, self.budget, self.band = candidates, costs, budget, band
        self.most = candidates.nonzero
        self.best, self.spent = candidates.top(0, False), 0

    @property
    def count(self) -> int:
        """Number of elements of the best selection."""
        return self.best.values.size

    @property
    def has_room(self) -> bool:
        """Whether the best selection leaves more of the budget than a search accepts."""
        return self.spent < min(self.band.least * self.budget, self.budget - MIN_ROOM)

    def measure(self, count: int, shrink: float = 1.0) -> int:
        """Measure the ``count`` largest elements; keep them if they fit the budget."""
        chosen = self.candidates.top(count, self.costs.takes_step, shrink)
        spent = self.costs.measure(chosen.indices, chosen.values, chosen.size, chosen.step)
        if spent <= self.budget:
            self.best, self.spent = chosen, spent
        return spent

    def predict_count(self, guess: float) -> float:
        """Return the count at which the search aims, from two measurements at most."""
        k = min(max(round(guess), 1), self.most)
        first = self.measure(k)
        wanted = self._scale_count(k, first, POWER)
        again = min(max(round(wanted), 1), self.most)
        if abs(again - k) * 50 <= k:
            return wanted
        second = self.measure(again)
        return self._scale_count(again, second, _power((k, first), (again, second)))

    def search_count(self, guess: float) -> None:
        """Search the largest number of elements that fits the budget, from a guess."""
        low, high = (0, 0), (self.most + 1, 0)  # counts and bytes; below and above the budget
        k = min(max(round(guess), 1), self.most)
        for n in range(MAX_TRIES):
            spent = self.measure(k)
            if spent <= self.budget:
                low = k, spent
                if not self.has_room:
                    break
            else:
                high = k, spent
            if high[0] - low[0] < 2:
                break
            power = _power(low, high) if low[0] and high[1] else POWER
            k = round(self._scale_count(k, spent, power))
            margin = (high[0] - low[0]) // (50 if n < MAX_TRIES // 2 else 4) if low[0] and high[1] else 0
            k = min(max(k, low[0] + max(margin, 1)), high[0] - max(margin, 1))

    def _scale_count(self, count: int, spent: int, power: float) -> float:
        """Return the count at which the search aims if bytes grow with a power of the count."""
        ratio: float = (self.band.aim * self.budget / max(spent, 1)) ** (1 / power)
        return count * min(max(ratio, 0.125), 4.0)

    def search_beyond(self) -> None:
        """Search larger counts that fit the budget.

        An index codec's parameter changes with the count, so more elements may take fewer bytes.
        """
        count = self.count
        for part in range(JUMPS, 0, -1):
            k = min(self.most, count + max(part, count * part // (2 * JUMPS)))
            if self.measure(k) <= self.budget:
                break

    def refine_step(self) -> None:
        """Shrink the step while the selected elements fit the budget. Values are exact at the smallest."""
        count, low, high = self.count, 0.0, math.inf  # octaves that fit, and that do not
        if self.measure(count, 0.0) <= self.budget:
            return
        octaves = self._missing_octaves()
        for _ in range(MAX_TRIES):
            if self.measure(count, 2.0**-octaves) <= self.budget:
                low = octaves
                if not self.has_room:
                    break
            else:
                high = octaves
            octaves = (low + high) / 2 if high < math.inf else low + self._missing_octaves()

    def _missing_octaves(self) -> float:
        """Return by how many octaves a smaller step spends the rest of the budget: a bit per value each."""
        return max(8 * (self.band.aim * self.budget - self.spent) / self.count, 0.01)


def _power(one: tuple[int, int], other: tuple[int, int]) -> float:
    """Return the power of the count with which the bytes grow between two measurements."""
    (k, spent), (m, more) = one, other
    if k == m or min(spent, more) < 1:
        return POWER
    return min(max(math.log(more / spent) / math.log(m / k), 0.4), 2.0)


def _guess_count(sample: Array, size: int, budget: int) -> float:
    """Return how many of a tensor's ``size`` elements fit the budget, by a model of a sample."""
    magnitudes = np.sort(np.abs(widen(sample)))[::-1]
    n, scale = magnitudes.size, size / magnitudes.size
    low, high = 0, n
    while high - low > max(1, low // 64):
        k = (low + high + 1) // 2
        threshold, density = float(magnitudes[k - 1]), k / n
        some = magnitudes[: k : max(1, k // MODEL_VALUES)].astype(np.float64)
        each = bits_per_value(some, threshold, threshold * step_ratio(density))
        if size * index_bits(density) + each * k * scale <= 8 * budget:
            low = k
        else:
            high = k - 1
    return max(low, 0.5) * scale


def _sample(x: Array) -> Array:
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
