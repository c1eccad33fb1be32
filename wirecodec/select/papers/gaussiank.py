"""``gaussiank``: a threshold from a fitted normal distribution, corrected up to three times."""

from __future__ import annotations

import math
from dataclasses import dataclass
from statistics import NormalDist
from typing import Any, ClassVar

from wirecodec.arrays import Array, bits_of
from wirecodec.select.base import Selection, Selector, require_finite
from wirecodec.select.threshold_common import (
    count_three,
    round_threshold,
    select_all,
    select_by_threshold,
    widen,
)
from wirecodec.select.topk import fraction_count
from wirecodec.validation import as_ratio, set_fields

_MAX_CORRECTIONS = 3
_MIN_PROBABILITY = math.ulp(0.0)
"""Lower bound of a tail probability: half of the smallest ratio would round to 0."""


@dataclass(frozen=True)
class GaussianK(Selector):
    """Selector of about k elements, by the threshold of a fitted normal distribution.

    Selects {i : |x_i| ≥ t, x_i ≠ 0}. First t = μ + z·σ, with P(|Z| > z) = ``ratio`` for a standard normal Z.
    Then up to three corrections follow: t/2 if fewer than 2k/3 elements reach t, 1.5·t if more than 4k/3 do.
    A t of 0 or below, as a negative μ may give, selects all elements that are not 0. Gradients are not
    normally distributed, so the count often misses k by far; it can be 0.

    Cost: at most five reads of the array.

    Source: Shi et al., Understanding Top-k Sparsification in Distributed Deep Learning, 2019 (GaussianK-SGD),
    as SIDCo (MLSys 2021), section 1.2, describes it. SIDCo gives no numbers; factors and band are those
    commonly stated.

    Args:
        ratio: k/n, above 0 and at most 1.

    Raises:
        EncodeError: if ``ratio`` is out of range.

    Examples:
        >>> import numpy as np, wirecodec as wc
        >>> wc.selectors.GaussianK(0.25).select(np.array([0.1, -3.0, 2.0, 0.5], np.float32)).indices
        array([1], dtype=int32)
    """

    name: ClassVar[str] = "gaussiank"
    ratio: float

    def __post_init__(self) -> None:
        set_fields(self, ratio=as_ratio(self.ratio, "gaussiank: ratio"))

    def select(
        self, x: Array, *, gradient: Array | None = None, state: Any = None, seed: int = 0
    ) -> Selection:
        """Select the elements that reach the corrected threshold.

        Args:
            x: (n,) any element type.

        Returns a Selection.

        Raises EncodeError at the first NaN or Inf.
        """
        k = fraction_count(self.ratio, x.size)
        if k == x.size:
            return select_all(x, self.name)
        wide = widen(x)
        mean, deviation = _fit_normal(wide)
        if not math.isfinite(mean + deviation):
            require_finite(x, self.name)
            return select_by_threshold(
                wide, math.inf, self.name, 0
            )  # the squares overflow binary64; Inf selects nothing
        threshold = mean - NormalDist().inv_cdf(max(self.ratio / 2, _MIN_PROBABILITY)) * deviation
        counts: dict[float, int] = {}
        for _ in range(_MAX_CORRECTIONS):
            if threshold not in counts:  # one read counts it and its two possible successors
                near = [factor * threshold for factor in (0.5, 1.0, 1.5)]
                bits = (round_threshold(t, wide.dtype) for t in near)
                counts = dict(zip(near, count_three(wide, *bits), strict=True))
            count = counts[threshold]
            if 2 * k <= 3 * count <= 4 * k:
                break
            threshold *= 0.5 if 3 * count < 2 * k else 1.5
        return select_by_threshold(wide, threshold, self.name, expected=2 * k)


def _fit_normal(x: Array) -> tuple[float, float]:
    """Return mean and standard deviation; they are not finite if an element is not."""
    from wirecodec.kernels.cpu.select import sums

    total, squares = sums.sum_and_squares(bits_of(x))
    mean = total / x.size
    return mean, math.sqrt(max(0.0, squares / x.size - mean * mean)) if squares < math.inf else math.inf
