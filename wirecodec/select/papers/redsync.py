"""``redsync``: a threshold by bisection between the mean and the maximum magnitude."""

from __future__ import annotations

from dataclasses import dataclass
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

_MAX_ROUNDS = 10


@dataclass(frozen=True)
class RedSync(Selector):
    """Selector of k to 2k elements, by bisection for a threshold.

    Selects {i : |x_i| ≥ m + r·(M - m), x_i ≠ 0} with mean m and maximum M of |x|. r is bisected in [0, 1]
    until k to 2k elements reach the threshold, with k = max(1, ⌊ratio · n⌋). After ten steps r is known to
    1/1024, and the last threshold is used. Heavy tails, whose maximum far exceeds the rest, and ties can
    leave it far from k.

    Cost: at most seven reads of the array; two steps share a read, which counts the three possible
    thresholds.

    Source: Fang et al., RedSync, JPDC 2019, as SIDCo (MLSys 2021), section 1.2, describes it. The number of
    steps is left open there.

    Args:
        ratio: k/n, above 0 and at most 1.

    Raises:
        EncodeError: if ``ratio`` is out of range.

    Examples:
        >>> import numpy as np, wirecodec as wc
        >>> wc.selectors.RedSync(0.25).select(np.array([0.1, -3.0, 2.0, 0.5], np.float32)).indices
        array([1], dtype=int32)
    """

    name: ClassVar[str] = "redsync"
    ratio: float

    def __post_init__(self) -> None:
        set_fields(self, ratio=as_ratio(self.ratio, "redsync: ratio"))

    def select(
        self, x: Array, *, gradient: Array | None = None, state: Any = None, seed: int = 0
    ) -> Selection:
        """Select the elements that reach the bisected threshold.

        Args:
            x: (n,) any element type.

        Returns a Selection.

        Raises EncodeError at the first NaN or Inf.
        """
        k = fraction_count(self.ratio, x.size)
        if k == x.size:
            return select_all(x, self.name)
        wide = widen(x)
        mean, greatest = _mean_and_max(wide)
        if not greatest < float("inf"):
            require_finite(x, self.name)
        return select_by_threshold(wide, _bisect(wide, k, mean, greatest), self.name, expected=2 * k)


def _mean_and_max(x: Array) -> tuple[float, float]:
    """Return mean and maximum of the magnitudes; the maximum is NaN or Inf if an element is."""
    from wirecodec.kernels.cpu.select import sums

    bits = bits_of(x)
    total, top = sums.sum_magnitudes(bits)
    greatest = float(bits.dtype.type(top).view(x.dtype))
    return min(total / x.size, greatest), greatest


def _bisect(x: Array, k: int, mean: float, greatest: float) -> float:
    """Return the threshold that k to 2k elements reach, or else the last one tried."""
    low, high, threshold = 0.0, 1.0, mean
    for _ in range(_MAX_ROUNDS // 2):
        ratios = [low + (high - low) * part for part in (0.25, 0.5, 0.75)]
        thresholds = [mean + r * (greatest - mean) for r in ratios]
        counts = count_three(x, *(round_threshold(t, x.dtype) for t in thresholds))
        at = 1
        for _ in range(2):
            threshold, count = thresholds[at], counts[at]
            if k <= count <= 2 * k:
                return threshold
            if count > 2 * k:
                low, at = ratios[at], 2
            else:
                high, at = ratios[at], 0
    return threshold
