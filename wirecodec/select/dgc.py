"""``dgc``: a threshold from a sample (Lin et al., Deep Gradient Compression, 2018, as SIDCo, section 2,
describes it).

The share ``ratio`` of a 1 % sample gives the threshold; where more than k elements reach it, the exact top k
of those are kept, and where fewer do, those. The papers leave the sampling open: here one element, drawn by
counter hash, from each of n stretches of equal length.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from wirecodec.arrays import Array, bits_of
from wirecodec.prng import mix
from wirecodec.select.base import Selection, all_finite, finite_or_raise
from wirecodec.select.threshold_common import collected, whole
from wirecodec.select.topk import TopK, share_of
from wirecodec.validation import as_ratio, settle

__all__ = ["DGC"]


@dataclass(frozen=True)
class DGC:
    """At most k elements, among them no zeros; a sample, and one pass over the array.

    Args:
        ratio: of the elements that are kept, above 0 and at most 1.
        sample: of the elements that are looked at for the threshold.
    """

    name: ClassVar[str] = "dgc"
    ratio: float
    sample: float = 0.01

    def __post_init__(self) -> None:
        settle(
            self,
            ratio=as_ratio(self.ratio, "dgc: ratio"),
            sample=as_ratio(self.sample, "dgc: sample"),
        )

    def count_range(self, size: int) -> tuple[int, int]:
        """Return the fewest and the most of ``size`` elements that are selected."""
        k = share_of(self.ratio, size)
        return (k if k == size else 0), k

    def select(
        self, x: Array, *, gradient: Array | None = None, state: Any = None, seed: int = 0
    ) -> Selection:
        """Those of the top k that reach the sample's threshold; EncodeError names the first NaN or Inf."""
        k = share_of(self.ratio, x.size)
        if k == x.size:
            return whole(x, self.name)
        sample = x[_positions(share_of(self.sample, x.size), x.size, mix(seed))]
        if not all_finite(sample):
            finite_or_raise(x, self.name)
        top = TopK(k=share_of(self.ratio, sample.size)).select(sample).indices
        magnitudes = bits_of(np.abs(sample if top is None else sample[top]))
        found = collected(x, max(magnitudes.min(), magnitudes.dtype.type(1)), self.name, k)
        if found.size > k:
            found = found[TopK(k=k).select(x[found]).indices]
        return Selection(found)


def _positions(n: int, size: int, stream: int) -> Array:
    """One element from each of n stretches [⌊q·size/n⌋, ⌊(q+1)·size/n⌋): the high half of length · draw32."""
    from wirecodec.kernels.cpu.select import dgc

    low, high = np.uint32(stream & 0xFFFFFFFF), np.uint32(stream >> 32)
    positions = np.empty(n, np.int64)
    dgc.stratified(low, high, size, positions)
    return positions
