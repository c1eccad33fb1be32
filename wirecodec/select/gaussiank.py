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
from wirecodec.select.base import Selection, finite_or_raise
from wirecodec.select.threshold_common import counted_each, fitted, threshold_bits, whole, widened
from wirecodec.select.topk import share_of
from wirecodec.validation import as_ratio, settle

__all__ = ["GaussianK"]

_CORRECTIONS = 3
_LEAST = math.ulp(0.0)
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
        k = share_of(self.ratio, x.size)
        if k == x.size:
            return whole(x, self.name)
        wide = widened(x)
        mean, deviation = _normal(wide)
        if not math.isfinite(mean + deviation):
            finite_or_raise(x, self.name)
            return fitted(wide, math.inf, self.name, 0)  # squares beyond binary64: nothing stands out
        threshold = mean - NormalDist().inv_cdf(max(self.ratio / 2, _LEAST)) * deviation
        counts: dict[float, int] = {}
        for _ in range(_CORRECTIONS):
            if threshold not in counts:  # one read counts it and both that may come next
                near = [factor * threshold for factor in (0.5, 1.0, 1.5)]
                bits = (threshold_bits(t, wide.dtype) for t in near)
                counts = dict(zip(near, counted_each(wide, *bits), strict=True))
            count = counts[threshold]
            if 2 * k <= 3 * count <= 4 * k:
                break
            threshold *= 0.5 if 3 * count < 2 * k else 1.5
        return fitted(wide, threshold, self.name, expected=2 * k)


def _normal(x: Array) -> tuple[float, float]:
    """Mean and standard deviation; not finite where an element is not."""
    from wirecodec.kernels.cpu.select import sums

    total, squares = sums.signed_sums(bits_of(x))
    mean = total / x.size
    return mean, math.sqrt(max(0.0, squares / x.size - mean * mean)) if squares < math.inf else math.inf
