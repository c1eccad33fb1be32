"""Search of ``budget``: how many elements, and which step, spend a number of bytes.

sample      magnitudes from everywhere give a first count by a model of the bytes
large       of many elements, segments are encoded as the tensor would be, which gives a threshold within
            about a per cent; one sweep collects the elements that reach it
others      one sweep collects the largest elements, up to twice as many as that count
tensor      the selection is encoded; the step is chosen again by its bytes, and the count is corrected
            until the bytes are within the band
"""

from __future__ import annotations

import math
from collections.abc import Callable

from wirecodec.kernels.budget_rules import (
    FAR,
    JUMPS,
    LARGE_BAND,
    LARGE_COUNT,
    MANY,
    MAX_COUNTED_CANDIDATES,
    MAX_TRIES,
    MIN_ROOM,
    NARROW,
    NEXT_BLOCK,
    SMALL_BAND,
    aim_at,
    count_candidates,
    follow_power,
    limit_count,
)
from wirecodec.kernels.layout import RICE_BLOCK
from wirecodec.select.base import Costs, Selection
from wirecodec.select.budget.model import Histogram
from wirecodec.select.budget.source import Candidates, Chosen, Source, cut_segments


def search(source: Source, capacity: int, costs: Costs) -> Selection:
    """Select elements of a tensor whose container takes at most ``capacity`` bytes, and nearly as many.

    Args:
        source: the elements.
        capacity: bytes.
        costs: measures the bytes of a selection.

    Raises EncodeError at the first NaN or Inf.
    """
    budget = capacity - costs.overhead
    model = source.sample()
    if not model.finite:
        source.require_finite()
    aim = aim_at(SMALL_BAND[0], budget)
    guess = model.find_count(aim)
    counted = count_candidates(guess, source.size) <= MAX_COUNTED_CANDIDATES
    if costs.takes_step and not counted:
        model, guess = model.refine(aim)
    if guess >= LARGE_COUNT:
        outcome = _search_large(source, budget, costs, model, guess)
        if isinstance(outcome, Chosen):
            return outcome.selection()
        guess = outcome
    while True:
        candidates = source.collect(count_candidates(guess, source.size))
        if counted and candidates.nonzero:
            model = model.with_largest(candidates.values)
            if costs.takes_step:
                model, guess = model.refine(aim)
            counted = False
        band = SMALL_BAND if guess < LARGE_COUNT else LARGE_BAND
        trial = _Trial(candidates, costs, model, budget, band)
        trial.search_count(guess, MAX_TRIES, trial.spends_budget)
        if trial.has_room and trial.count == trial.most and not candidates.complete:
            guess *= 2  # more candidates
            continue
        if trial.count < trial.most:
            trial.search_beyond()
        if trial.has_room and trial.count and costs.takes_step:
            trial.refine_step()
        return trial.best.selection()


def _search_large(
    source: Source, budget: float, costs: Costs, model: Histogram, guess: float
) -> Chosen | float:
    """Search a threshold in segments, and measure what reaches it; return a better guess if that fails."""
    part = cut_segments(source, guess)
    fraction = part.size / source.size
    trial = _Trial(part, costs, model.scaled(fraction), budget * fraction, LARGE_BAND)
    count = trial.search_count(guess * fraction, 4, trial.is_near)
    for _ in range(2):
        if not 1 <= count < part.nonzero:
            break
        candidates = source.collect_from(part.find_key(round(count)), count / fraction)
        trial = _Trial(candidates, costs, model, budget, LARGE_BAND)
        spent = trial.measure(trial.most)
        if spent > budget:
            trial.search_count(trial.correct(trial.most, spent), MAX_TRIES, trial.spends_budget)
        if not trial.has_room:
            return trial.best
        count *= trial.correct(trial.most, spent) / trial.most
    return count / fraction


class _Trial:
    """Selections that were measured, and the best of them: the last one that fitted the budget.

    Args:
        candidates: among which elements are selected.
        costs: measure the selections.
        model: predicts their bytes.
        budget: bytes.
        band: part of the budget that is aimed at, and the least that is accepted.
    """

    def __init__(
        self, candidates: Candidates, costs: Costs, model: Histogram, budget: float, band: tuple[float, float]
    ) -> None:
        self.candidates, self.costs, self.model = candidates, costs, model
        self.budget, self.least, self.aim = budget, band[1], aim_at(band[0], budget)
        self.most = candidates.nonzero
        self.best, self.spent = candidates.top(0, False), 0

    @property
    def count(self) -> int:
        """Number of elements of the best selection."""
        return self.best.values.size

    @property
    def has_room(self) -> bool:
        """Whether the best selection leaves more of the budget than a search accepts."""
        return self.spent < min(self.least * self.budget, self.budget - MIN_ROOM)

    def measure(self, count: int, shrink: float = 1.0) -> int:
        """Measure the ``count`` largest elements; keep them if they fit the budget."""
        chosen = self.candidates.top(count, self.costs.takes_step, shrink * self.model.fineness)
        spent = self.costs.measure(chosen.indices, chosen.values, chosen.size, chosen.step)
        if spent <= self.budget:
            self.best, self.spent = chosen, spent
        return spent

    def correct(self, count: int, spent: int) -> float:
        """Fit the model to a measurement; return the count at which to aim."""
        if self.costs.takes_step:
            self.model = self.model.fit(count, spent)
        ratio = max(spent, 1) / self.model.predict_bytes(count)
        return limit_count(self.model.find_count(self.aim / ratio), count)

    def correct_step(self, count: int, spent: int) -> float | None:
        """Choose the step again, by a measurement; return the count at which to aim, or None if it stays."""
        model, wanted = self.model.fit(count, spent).refine(self.aim)
        if model.fineness == self.model.fineness:
            return None
        self.model = model
        return limit_count(wanted, count)

    def is_near(self, spent: int) -> bool:
        """Tell whether bytes are near those that are aimed at."""
        return abs(spent - self.aim) <= 0.02 * self.aim

    def spends_budget(self, spent: int) -> bool:
        """Tell whether the last measurement fits the budget, and leaves little of it."""
        return spent <= self.budget and not self.has_room

    def search_count(self, guess: float, tries: int, is_good: Callable[[int], bool]) -> float:
        """Search the largest number of elements that fits the budget, from a guess.

        Args:
            guess: number of elements.
            tries: most measurements.
            is_good: tells of measured bytes whether to end.

        Returns the count at which the search aims; it may exceed ``most``.
        """
        low, high = (0, 0), (self.most + 1, 0)  # counts and bytes; below and above the budget
        wanted = guess
        for n in range(tries):
            margin = max(1, (high[0] - low[0]) // (50 if n < 4 else 4)) if low[0] and high[1] else 1
            k = min(max(round(wanted), low[0] + margin, 1), high[0] - margin)
            spent = self.measure(k)
            if spent <= self.budget:
                low = k, spent
            else:
                high = k, spent
            if n == 0 and self.costs.takes_step and not is_good(spent):
                again = self.correct_step(k, spent)
                if again is not None:
                    low, high, wanted = (0, 0), (self.most + 1, 0), again
                    continue
            if low[0] and high[1]:
                wanted = follow_power(self.aim, k, spent, *low, *high)
            else:
                wanted = self.correct(k, spent)
            narrow = high[0] - low[0] < 2 or (self.costs.takes_step and high[0] - low[0] <= NARROW * low[0])
            if is_good(spent) or narrow:
                break
        return wanted

    def search_beyond(self) -> None:
        """Search larger counts that fit the budget.

        An index codec's parameters change with the count, so more elements may take fewer bytes. Most of all
        they do if few blocks of indices become one more.
        """
        count, tried = self.count, 0
        block = (count // RICE_BLOCK + 1) * RICE_BLOCK + NEXT_BLOCK
        if block <= min(self.most, FAR * count) and count < MANY and self.measure(block) <= self.budget:
            return
        for part in range(JUMPS if self.has_room else 0, 0, -1):
            k = min(self.most, count + max(part, count * part // (2 * JUMPS)))
            if k != tried and self.measure(k) <= self.budget:
                break
            tried = k

    def refine_step(self) -> None:
        """Shrink the step while the selected elements fit the budget. Values are exact at the smallest."""
        count, low, high = self.count, 0.0, math.inf  # octaves that fit, and that do not
        if count * self.best.values.itemsize < self.budget and self.measure(count, 0.0) <= self.budget:
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
        """Return by how many octaves to shrink the step; each octave takes a bit per value of the rest."""
        return max(8 * (self.aim - self.spent) / self.count, 0.01)
