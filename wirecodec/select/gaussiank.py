"""``gaussiank``: a threshold from a fitted normal distribution (Shi et al., GaussianKSGD, 2019, as SIDCo,
section 2, describes it).

μ + z·σ, with z the point that a standard normal's magnitude exceeds with probability ``ratio``; then up to
three corrections: × 0.5 where fewer than 2k/3 elements reach it, × 1.5 where more than 4k/3 do. SIDCo gives
no numbers; the factors and the band are those of the authors' algorithm as it is commonly stated. Gradients
are no normal distribution, and three corrections do not make up for that: it often misses k by far.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from statistics import NormalDist
from typing import Any, ClassVar

from wirecodec.arrays import Array, bits_of
from wirecodec.select.base import Selection, require_finite
from wirecodec.select.threshold_common import (
    count_three,
    round_threshold,
    select_all,
    select_by_threshold,
    widen,
)
from wirecodec.select.topk import fraction_count
from wirecodec.validation import as_ratio, settle

__all__ = ["GaussianK"]

_MAX_CORRECTIONS = 3
_MIN_PROBABILITY = math.ulp(0.0)
"""A probability: half of the least ratio there is would be 0."""


@dataclass(frozen=True)
class GaussianK:
    """Some elements, none where the last threshold is too high; at most five passes over the array.

    A threshold of 0 or below, as a negative μ may give, takes all that are not 0.
    """

    name: ClassVar[str] = "gaussiank"
    ratio: float

    def __post_init__(self) -> None:
        settle(self, ratio=as_ratio(self.ratio, "gaussiank: ratio"))

    def select(
        self, x: Array, *, gradient: Array | None = None, state: Any = None, seed: int = 0
    ) -> Selection:
        """The elements that reach the corrected threshold; EncodeError names the first NaN or Inf."""
        k = fraction_count(self.ratio, x.size)
        if k == x.size:
            return select_all(x, self.name)
        wide = widen(x)
        mean, deviation = _fit_normal(wide)
        if not math.isfinite(mean + deviation):
            require_finite(x, self.name)
            return select_by_threshold(
                wide, math.inf, self.name, 0
            )  # squares beyond binary64: nothing stands out
        threshold = mean - NormalDist().inv_cdf(max(self.ratio / 2, _MIN_PROBABILITY)) * deviation
        counts: dict[float, int] = {}
        for _ in range(_MAX_CORRECTIONS):
            if threshold not in counts:  # one read counts it and both that may come next
                near = [factor * threshold for factor in (0.5, 1.0, 1.5)]
                bits = (round_threshold(t, wide.dtype) for t in near)
                counts = dict(zip(near, count_three(wide, *bits), strict=True))
            count = counts[threshold]
            if 2 * k <= 3 * count <= 4 * k:
                break
            threshold *= 0.5 if 3 * count < 2 * k else 1.5
        return select_by_threshold(wide, threshold, self.name, expected=2 * k)


def _fit_normal(x: Array) -> tuple[float, float]:
    """Mean and standard deviation; not finite where an element is not."""
    from wirecodec.kernels.cpu.select import sums

    total, squares = sums.sum_and_squares(bits_of(x))
    mean = total / x.size
    return mean, math.sqrt(max(0.0, squares / x.size - mean * mean)) if squares < math.inf else math.inf
