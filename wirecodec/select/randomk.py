"""``randomk``: k elements drawn at random, independently of their values.

The draw of element i is draw32(stream, i) with stream = mix(seed) (formats/SPEC.md, section 5). The draws of
one stream are distinct, so there are no ties. Ranks with equal seeds select the same elements, so that their
values can be summed without indices.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from wirecodec.arrays import Array, index_dtype
from wirecodec.errors import EncodeError
from wirecodec.prng import mix
from wirecodec.select.base import Selection, Selector, require_finite
from wirecodec.select.topk import fraction_count
from wirecodec.validation import as_ratio, set_fields

_DRAWS = 2**32


@dataclass(frozen=True)
class RandomK(Selector):
    """Selector of k elements drawn at random; every set of k is equally likely.

    Selects the k indices of smallest draw32(mix(seed), i), with k = max(1, ⌊ratio · n⌋).

    Cost: one read of the array, for NaN and Inf only, and one hash per element.

    Source: Stich, Cordonnier and Jaggi, Sparsified SGD with Memory, NeurIPS 2018, section 2 (rand_k).

    Args:
        ratio: k/n, above 0 and at most 1.

    Raises:
        EncodeError: if ``ratio`` is out of range.

    Examples:
        >>> import numpy as np, wirecodec as wc
        >>> wc.selectors.RandomK(0.25).select(np.zeros(8, np.float32), seed=1).indices.size
        2
    """

    name: ClassVar[str] = "randomk"
    ratio: float

    def __post_init__(self) -> None:
        set_fields(self, ratio=as_ratio(self.ratio, "randomk: ratio"))

    def count_range(self, size: int) -> tuple[int, int]:
        """Return the fewest and the most of ``size`` elements that are selected."""
        k = fraction_count(self.ratio, size)
        return k, k

    def select(
        self, x: Array, *, gradient: Array | None = None, state: Any = None, seed: int = 0
    ) -> Selection:
        """Select k elements; they depend on the size and the seed alone.

        Args:
            x: (n,) any element type, at most 2^32 elements.
            seed: of the draws.

        Returns a Selection.

        Raises EncodeError at the first NaN or Inf, because no residual can keep it, and if n is above 2^32.
        """
        require_finite(x, self.name)
        k = fraction_count(self.ratio, x.size)
        if k == x.size:
            return Selection(None)
        if x.size > _DRAWS:
            raise EncodeError(f"randomk: size is {x.size}; it must be at most 2^32")
        return Selection(_select_smallest_draws(x.size, k, mix(seed)))


def _select_smallest_draws(size: int, k: int, stream: int) -> Array:
    """Return the k indices below ``size`` of smallest draw, ascending; k < size."""
    from wirecodec.kernels.cpu.select import randomk

    low, high = np.uint32(stream & 0xFFFFFFFF), np.uint32(stream >> 32)
    # More than six standard deviations of the number of draws in the first k/size of the range.
    spread = 6 * math.isqrt(k) + 16
    limits = [min(_DRAWS - 1, (k + spread) * _DRAWS // size), _DRAWS - 1]
    sizes = [min(size, k + 2 * spread), size]
    for limit, capacity in zip(limits, sizes, strict=True):
        candidates = np.empty(capacity + randomk.SLACK, index_dtype(size))
        draws = np.empty(capacity + randomk.SLACK, np.uint32)
        count = randomk.collect_draws(low, high, size, np.uint32(limit), candidates, draws)
        if count >= k:
            break
    draws, candidates = draws[:count], candidates[:count]
    certain = max(0, k - spread) * _DRAWS // size
    rest = draws[draws >= certain]
    rank = k - 1 - (count - rest.size)
    last = np.partition(rest, rank)[rank]
    indices: Array = candidates[draws <= last]
    return indices
