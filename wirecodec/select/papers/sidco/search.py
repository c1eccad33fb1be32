"""Search for a threshold that about k magnitudes reach: SIDCo's stages and their corrections."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from wirecodec.arrays import Array
from wirecodec.select.papers.sidco import fits as sidco_fits
from wirecodec.select.papers.sidco.fits import Fit, Moments
from wirecodec.select.papers.sidco.sweeps import MagnitudeSource

DISTRIBUTIONS: dict[str, tuple[Callable[[Moments], Fit], Callable[[Moments], Fit]]] = {
    "exponential": (sidco_fits.fit_exponential, sidco_fits.fit_exponential),
    "gamma-gp": (sidco_fits.fit_gamma, sidco_fits.fit_pareto),
    "gp": (sidco_fits.fit_pareto, sidco_fits.fit_pareto),
}
"""Fit of stage 1, and fit of later stages, by name."""
PUBLISHED: dict[str, tuple[Callable[[Moments], Fit], Callable[[Moments], Fit]]] = DISTRIBUTIONS | {
    "gamma-gp": (sidco_fits.fit_published_gamma, sidco_fits.fit_pareto)
}
"""The same with the paper's closed form of the gamma distribution's threshold."""

_MAX_EXACT_SIZE = 1024
"""Elements up to which the k largest are selected exactly: a fit to so few is unreliable."""
_MAX_THRESHOLDS = 12
"""Thresholds after which the search ends with an exact selection."""
_MAX_READS = 7
"""Reads, per element of the tensor, after which the search ends with an exact selection."""
_MAX_INTERPOLATION_RATIO = 4
"""Ratio of two thresholds above which a fit replaces the interpolation between them."""
_LAST_STAGE_FACTOR = 4
"""The next stage is the last if the count is at most this many times k."""
_NARROW_FACTOR = 1.4
"""Sweeps are restricted to a target of this many times k elements, so that a fit may err by as much."""
_NARROW_ENOUGH = 1.5
"""If a threshold keeps at most this many times k elements, later sweeps need nothing below it."""


@dataclass(frozen=True)
class MeasuredThreshold:
    """A threshold and the number of elements that reach it.

    Attributes:
        rule: "fit"; "trial", of a number of stages; "refit", of the elements between a threshold too low and
            one too high; or "interpolation".
        threshold: in the tensor's unit.
        count: number of elements that reach it.
        elements_read: elements read until then.
    """

    rule: str
    threshold: float
    count: int
    elements_read: int


@dataclass(frozen=True)
class _Point:
    """A threshold in the magnitudes' unit, its count, and the moments of the excess if known."""

    threshold: float
    count: int
    moments: Moments | None = None


class ThresholdSearch:
    """Search for k of some magnitudes with the fits of a distribution.

    Attributes:
        measured: the thresholds measured, in order.
        fit_count: number of fits.
        exact: whether the search ended in an exact selection.
    """

    def __init__(
        self, magnitudes: MagnitudeSource, k: int, sid: str, first: float, *, published: bool = False
    ) -> None:
        self._magnitudes, self._k = magnitudes, k
        self._first_fit, self._later_fit = (PUBLISHED if published else DISTRIBUTIONS)[sid]
        total = magnitudes.total.count
        self._max_read = _MAX_READS * magnitudes.size
        self._first = max(k, min(int(first * magnitudes.size), total))
        self.measured: list[MeasuredThreshold] = []
        self.fit_count = 0
        self.exact = False
        self._interpolated = 0

    def run_stages(self, stages: int, correction: float = 1.0) -> tuple[Array, float]:
        """Return indices and threshold after the paper's stages, which ignore counts.

        The stages aim at k · ``correction`` elements.
        """
        source = self._magnitudes
        threshold = self._fit_first(stages, correction)
        for stage in range(2, self._clip(stages) + 1):
            excess = source.moments_above(threshold)
            self._note("fit", _Point(threshold, excess.count))
            if excess.count == 0:
                break
            fraction = self._later_fraction(stages, correction)
            threshold = self._fit_later(threshold, excess, fraction)
            if stage == 2 and stages > 2:
                source.narrow(threshold, expected=fraction * excess.count)
        indices = source.find_reaching(threshold, self._k)
        self._note("fit", _Point(threshold, indices.size))
        return indices, threshold

    def count_after(self, stages: int, correction: float = 1.0) -> int:
        """Return the number of elements that ``run_stages`` would select; later sweeps are not restricted."""
        source = self._magnitudes
        threshold = self._fit_first(stages, correction)
        excess = source.moments_above(threshold)
        for _ in range(2, self._clip(stages) + 1):
            if excess.count == 0:
                break
            threshold = self._fit_later(threshold, excess, self._later_fraction(stages, correction))
            excess = source.moments_above(threshold)
        self._note("trial", _Point(threshold, excess.count))
        return excess.count

    def _clip(self, stages: int) -> int:
        return 1 if self._first == self._k else stages

    def _fit_first(self, stages: int, correction: float) -> float:
        total = self._magnitudes.total
        kept = self._k * correction if self._clip(stages) == 1 else self._first
        self.fit_count += 1
        return self._magnitudes.round_up(self._first_fit(total).threshold(kept / total.count))

    def _fit_later(self, threshold: float, excess: Moments, fraction: float) -> float:
        self.fit_count += 1
        return self._magnitudes.round_up(threshold + self._later_fit(excess).threshold(fraction))

    def _later_fraction(self, stages: int, correction: float) -> float:
        return float((self._k * correction / self._first) ** (1 / (stages - 1)))

    def run_retargeted(self, stages: int, slack: float) -> tuple[Array, float]:
        """Return indices and threshold, with a count within ``slack`` of k.

        ``low`` is a threshold that k or more elements reach, ``high`` one that fewer do. The search ends if
        one of them has a count close enough to k.
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
                or source.elements_read >= self._max_read
            ):
                break
            if low.threshold > 0 and low.count <= _NARROW_ENOUGH * k and source.size > 2 * low.count:
                source.narrow(low.threshold, expected=low.count)
            aim = self._aim(low, high, stages)
            rule, threshold = self._next(low, high, aim, stages)
            threshold = source.round_up(threshold)
            if not low.threshold < threshold < (high.threshold if high is not None else math.inf):
                break  # the element type has no number between them
            point = self._measure(threshold, aim, k - slack)
            self._note(rule, point)
            low, high = (point, high) if point.count >= k else (low, point)
        self.exact = True
        return source.find_top(k)

    def _aim(self, low: _Point, high: _Point | None, stages: int) -> float:
        """Return the number of elements that the next threshold should keep."""
        k, source = self._k, self._magnitudes
        if low.threshold == 0 and stages > 1 and self._first < low.count:
            return max(self._first, min(_NARROW_FACTOR * k, low.count))
        if high is None:
            left = max(stages - max(self.fit_count, 1), 1) if low.count > _LAST_STAGE_FACTOR * k else 1
            aim = low.count * math.pow(k / low.count, 1 / left)
        else:
            aim = k
        target = _NARROW_FACTOR * k
        above = 0 if high is None else high.count
        return (
            max(aim, target) if source.size > _LAST_STAGE_FACTOR * k and above < target < low.count else aim
        )

    def _next(self, low: _Point, high: _Point | None, aim: float, stages: int) -> tuple[str, float]:
        """Return the rule for the next threshold, and that threshold."""
        if high is None:
            fit = self._first_fit if low.threshold == 0 else self._later_fit
            moments = low.moments or self._magnitudes.moments_above(low.threshold)
            self.fit_count += 1
            step = fit(moments).threshold(aim / low.count)
            # Beyond the last stage, steps double until a threshold is too high, which interpolation needs.
            return "fit", low.threshold + math.ldexp(step, max(self.fit_count - stages, 0))
        if high.threshold > _MAX_INTERPOLATION_RATIO * low.threshold:
            rest = self._magnitudes.moments_between(low.threshold, high.threshold)
            fraction = (aim - high.count) / max(rest.count, 1)
            threshold = low.threshold + sidco_fits.fit_exponential(rest).threshold(fraction)
            self.fit_count += 1
            if low.threshold < threshold < high.threshold:
                return "refit", threshold
        fraction = (low.count - aim) / (low.count - high.count)
        if self._interpolated % 3 < 2:  # else linear in the count, for tails that end abruptly
            fraction = math.log(low.count / aim) / math.log(low.count / max(high.count, 0.5))
        self._interpolated += 1
        return "interpolation", low.threshold + fraction * (high.threshold - low.threshold)

    def _measure(self, threshold: float, aim: float, least: float) -> _Point:
        """Count the elements that reach the threshold; if they are few, restrict later sweeps to them."""
        source = self._magnitudes
        if 1.1 * self._k <= aim <= source.size / 5:
            return _Point(threshold, source.narrow(threshold, expected=aim, least=least))
        excess = source.moments_above(threshold)
        return _Point(threshold, excess.count, excess)

    def _note(self, rule: str, point: _Point) -> None:
        source = self._magnitudes
        self.measured.append(
            MeasuredThreshold(rule, point.threshold / source.scale, point.count, source.elements_read)
        )
