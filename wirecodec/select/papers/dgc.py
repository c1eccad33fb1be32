"""``dgc``: a threshold from a sample, refined by an exact top-k if it lets too many elements through."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from wirecodec.arrays import Array, bits_of
from wirecodec.prng import mix
from wirecodec.select.base import Selection, Selector, all_finite, require_finite
from wirecodec.select.threshold_common import collect_indices, select_all
from wirecodec.select.topk import TopK, fraction_count
from wirecodec.validation import as_ratio, set_fields


@dataclass(frozen=True)
class DGC(Selector):
    """Selector of at most k elements, by a threshold that is estimated from a sample.

    With t the top-``ratio`` threshold of the sample and k = max(1, ⌊ratio · n⌋), it selects S = {i : |x_i| ≥
    t, x_i ≠ 0} if |S| ≤ k, else the top k of S.

    Cost: the sample, and one read of the array.

    Source: Lin et al., Deep Gradient Compression, ICLR 2018, as SIDCo (MLSys 2021), section 1.2, describes
    it. The papers leave the sampling open. Here one element is drawn by counter hash from each of n·sample
    equal strata.

    Args:
        ratio: k/n, above 0 and at most 1.
        sample: sampled elements per element, above 0 and at most 1.

    Raises:
        EncodeError: if ``ratio`` or ``sample`` is out of range.

    Examples:
        >>> import numpy as np, wirecodec as wc
        >>> wc.selectors.DGC(0.25, sample=1.0).select(np.array([0.1, -3.0, 2.0, 0.5], np.float32)).indices
        array([1], dtype=int32)
    """

    name: ClassVar[str] = "dgc"
    ratio: float
    sample: float = 0.01

    def __post_init__(self) -> None:
        set_fields(
            self,
            ratio=as_ratio(self.ratio, "dgc: ratio"),
            sample=as_ratio(self.sample, "dgc: sample"),
        )

    def count_range(self, size: int) -> tuple[int, int]:
        """Return the fewest and the most of ``size`` elements that are selected."""
        k = fraction_count(self.ratio, size)
        return (k if k == size else 0), k

    def select(
        self, x: Array, *, gradient: Array | None = None, state: Any = None, seed: int = 0
    ) -> Selection:
        """Select the elements of the top k that reach the sample's threshold.

        Args:
            x: (n,) any element type.
            seed: of the sample.

        Returns a Selection.

        Raises EncodeError at the first NaN or Inf.
        """
        k = fraction_count(self.ratio, x.size)
        if k == x.size:
            return select_all(x, self.name)
        sample = x[draw_positions(fraction_count(self.sample, x.size), x.size, mix(seed))]
        if not all_finite(sample):
            require_finite(x, self.name)
        top = TopK(k=fraction_count(self.ratio, sample.size)).select(sample).indices
        magnitudes = bits_of(np.abs(sample if top is None else sample[top]))
        indices = collect_indices(x, max(magnitudes.min(), magnitudes.dtype.type(1)), self.name, k)
        if indices.size > k:
            indices = indices[TopK(k=k).select(x[indices]).indices]
        return Selection(indices)


def draw_positions(n: int, size: int, stream: int) -> Array:
    """Draw one position from each of n strata [⌊q·size/n⌋, ⌊(q+1)·size/n⌋).

    The offset in a stratum is the upper 32 bits of length · draw32(stream, q).
    """
    from wirecodec.kernels.cpu.select import dgc

    low, high = np.uint32(stream & 0xFFFFFFFF), np.uint32(stream >> 32)
    positions = np.empty(n, np.int64)
    dgc.draw_stratified(low, high, size, positions)
    return positions
