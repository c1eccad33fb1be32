"""The search for a threshold that about k magnitudes reach: SIDCo's stages, and what mends them.

A ``ThresholdSearch`` works on one tensor's magnitudes, counts its fits and keeps every threshold that it measured.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from wirecodec.arrays import Array
from wirecodec.select import sidco_fits
from wirecodec.select.sidco_fits import Fit, Moments
from wirecodec.select.sidco_sweeps import MagnitudeSource

__all__ = ["DISTRIBUTIONS", "MeasuredThreshold", "ThresholdSearch"]

DISTRIBUTIONS: dict[str, tuple[Callable[[Moments], Fit], Callable[[Moments], Fit]]] = {
    "exponential": (sidco_fits.fit_exponential, sidco_fits.fit_exponential),
    "gamma-gp": (sidco_fits.fit_gamma, sidco_fits.fit_pareto),
    "gp": (sidco_fits.fit_pareto, sidco_fits.fit_pareto),
}
"""By name, how stage 1 fits, and how the stages after it do."""

_MAX_EXACT_SIZE = 1024
"""Of so few elements the k largest are taken as they are: a fit to them says little."""
_MAX_THRESHOLDS = 12
_MAX_READS = 7
"""After so many thresholds, or so many elements a tensor's element, the search ends exactly."""
_MAX_INTERPOLATION_RATIO = 4
"""Thresholds further apart than by this factor are not interpolated between, but fitted between."""
_LAST_STAGE_FACTOR = 4
"""From so many times k on, the next stage is the last."""
_NARROW_FACTOR = 1.4
"""What is put aside for later sweeps is to hold so many times k, so that a fit may err by that."""
_NARROW_ENOUGH = 1.5
"""Where a threshold keeps no more times k, later sweeps need nothing below it."""


@dataclass(frozen=True)
class MeasuredThreshold:
    """A threshold that was measured.

    Attributes:
        rule: "fit"; "refit", to what lies between a threshold too low and one too high; or "interpolation".
        threshold: in the tensor's unit.
        count: how many elements reach it.
        swept: elements looked at until then.
    """

    rule: str
    threshold: float
    count: int
    swept: int


@dataclass(frozen=True)
class _Point:
    """A threshold in the magnitudes' unit, how many reach it, and, where known, moments of their excess."""

    threshold: float
    count: int
    moments: Moments | None = None


class ThresholdSearch:
    """A search among ``magnitudes`` for k of them, with the fits of a distribution.

    Attributes:
        trials: the thresholds measured, in order.
        fitted: how many fits were made.
        exact: whether the search ended in an exact selection.
    """

    def __init__(self, magnitudes: MagnitudeSource, k: int, sid: str, first: float) -> None:
        self._magnitudes, self._k = magnitudes, k
        self._first_fit, self._later_fit = DISTRIBUTIONS[sid]
        total = magnitudes.total.count
        self._most = _MAX_READS * magnitudes.size
        self._first = max(k, min(int(first * magnitudes.size), total))
        self.measured: list[MeasuredThreshold] = []
        self.fit_count = 0
        self.exact = False
        self._interpolated = 0

    def run_faithful(self, stages: int) -> tuple[Array, float]:
        """Indices and threshold after the paper's stages, which do not look at counts."""
        source, k = self._magnitudes, self._k
        stages = 1 if self._first == k else stages
        share = (k if stages == 1 else self._first) / source.total.count
        threshold = source.round_up(self._first_fit(source.total).threshold(share))
        self.fit_count = 1
        for stage in range(2, stages + 1):
            beyond = source.moments_above(threshold)
            self._note("fit", _Point(threshold, beyond.count))
            if beyond.count == 0:
                break
            share = (k / self._first) ** (1 / (stages - 1))
            threshold = source.round_up(threshold + self._later_fit(beyond).threshold(share))
            self.fit_count += 1
            if stage == 2 and stages > 2:
                source.narrow(threshold, expected=share * beyond.count)
        found = source.find_reaching(threshold, k)
        self._note("fit", _Point(threshold, found.size))
        return found, threshold

    def run_retargeted(self, stages: int, slack: float) -> tuple[Array, float]:
        """Indices and threshold, their number within ``slack`` of k.

        Between a threshold that k or more reach, ``low``, and one that fewer do, ``high``, until one of them
        will do.
        """
        source, k = self._magnitudes, self._k
        low, high = _Point(0.0, source.total.count, source.total), None
        while True:
            for point in (low, high):
                if point is not None and point.count and abs(point.count - k) <= slack:
                    threshold = source.round_up(point.threshold)
                    return source.find_reaching(threshold, point.count), threshold
            if (
                source.size <= _MAX_EXACT_SIZE
                or len(self.measured) >= _MAX_THRESHOLDS
                or source.elements_read >= self._most
            ):
                break
            if low.threshold > 0 and low.count <= _NARROW_ENOUGH * k and source.size > 2 * low.count:
                source.narrow(low.threshold, expected=low.count)
            aim = self._aim(low, high, stages)
            rule, threshold = self._next(low, high, aim, stages)
            threshold = source.round_up(threshold)
            if not low.threshold < threshold < (high.threshold if high is not None else math.inf):
                break  # nothing of the element type lies between them
            point = self._measured(threshold, low, aim, k - slack)
            self._note(rule, point)
            low, high = (point, high) if point.count >= k else (low, point)
        self.exact = True
        return source.find_top(k)

    def _aim(self, low: _Point, high: _Point | None, stages: int) -> float:
        """How many elements the next threshold should keep."""
        k, source = self._k, self._magnitudes
        if low.threshold == 0 and stages > 1 and self._first < low.count:
            return max(self._first, min(_NARROW_FACTOR * k, low.count))
        if high is None:
            left = max(stages - max(self.fit_count, 1), 1) if low.count > _LAST_STAGE_FACTOR * k else 1
            aim = low.count * math.pow(k / low.count, 1 / left)
        else:
            aim = k
        room = _NARROW_FACTOR * k
        above = 0 if high is None else high.count
        return max(aim, room) if source.size > _LAST_STAGE_FACTOR * k and above < room < low.count else aim

    def _next(self, low: _Point, high: _Point | None, aim: float, stages: int) -> tuple[str, float]:
        """The rule for the next threshold, and what it gives."""
        if high is None:
            fit = self._first_fit if low.threshold == 0 else self._later_fit
            moments = low.moments or self._magnitudes.moments_above(low.threshold)
            self.fit_count += 1
            step = fit(moments).threshold(aim / low.count)
            # Where the last stage fell short, ever longer steps: interpolation wants a threshold too high.
            return "fit", low.threshold + math.ldexp(step, max(self.fit_count - stages, 0))
        if high.threshold > _MAX_INTERPOLATION_RATIO * low.threshold:
            rest = self._magnitudes.moments_between(low.threshold, high.threshold)
            share = (aim - high.count) / max(rest.count, 1)
            threshold = low.threshold + sidco_fits.fit_exponential(rest).threshold(share)
            self.fit_count += 1
            if low.threshold < threshold < high.threshold:
                return "refit", threshold
        part = (low.count - aim) / (low.count - high.count)
        if self._interpolated % 3 < 2:  # else as if evenly spread, which magnitudes that end abruptly are
            part = math.log(low.count / aim) / math.log(low.count / max(high.count, 0.5))
        self._interpolated += 1
        return "interpolation", low.threshold + part * (high.threshold - low.threshold)

    def _measured(self, threshold: float, low: _Point, aim: float, least: float) -> _Point:
        """How many reach the threshold; where that is few enough, later sweeps go over those alone."""
        source = self._magnitudes
        if 1.1 * self._k <= aim <= source.size / 5:
            return _Point(threshold, source.narrow(threshold, expected=aim, least=least))
        beyond = source.moments_above(threshold)
        return _Point(threshold, beyond.count, beyond)

    def _note(self, rule: str, point: _Point) -> None:
        source = self._magnitudes
        self.measured.append(
            MeasuredThreshold(rule, point.threshold / source.scale, point.count, source.elements_read)
        )
