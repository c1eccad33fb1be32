"""``redsync``: a threshold by bisection between the mean and the greatest magnitude (Fang et al., RedSync,
2019, as SIDCo, section 2, describes it).

The threshold is mean + r · (max - mean); r is bisected in [0, 1] until k to 2k elements reach it. How long to
try is left open: here ten rounds, after which r is known to 1/1024, and the last threshold tried is taken,
however many reach it. So heavy tails, whose greatest magnitude dwarfs the rest, and ties leave it far from k.
"""

from __future__ import annotations

from dataclasses import dataclass
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

__all__ = ["RedSync"]

_MAX_ROUNDS = 10


@dataclass(frozen=True)
class RedSync:
    """k to 2k elements where the bisection finds them; at most seven passes over the array.

    Two rounds share a pass, which counts the three thresholds that they may try.
    """

    name: ClassVar[str] = "redsync"
    ratio: float

    def __post_init__(self) -> None:
        settle(self, ratio=as_ratio(self.ratio, "redsync: ratio"))

    def select(
        self, x: Array, *, gradient: Array | None = None, state: Any = None, seed: int = 0
    ) -> Selection:
        """The elements that reach the threshold; EncodeError names the first NaN or Inf."""
        k = fraction_count(self.ratio, x.size)
        if k == x.size:
            return select_all(x, self.name)
        wide = widen(x)
        mean, greatest = _mean_and_max(wide)
        if not greatest < float("inf"):
            require_finite(x, self.name)
        return select_by_threshold(wide, _bisect(wide, k, mean, greatest), self.name, expected=2 * k)


def _mean_and_max(x: Array) -> tuple[float, float]:
    """Of the magnitudes; the greatest is NaN or infinite where one of them is."""
    from wirecodec.kernels.cpu.select import sums

    bits = bits_of(x)
    total, top = sums.sum_magnitudes(bits)
    greatest = float(bits.dtype.type(top).view(x.dtype))
    return min(total / x.size, greatest), greatest


def _bisect(x: Array, k: int, mean: float, greatest: float) -> float:
    """The threshold that k to 2k elements reach, or the last one tried."""
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
