"""``randomk``: k elements drawn without looking at their values, every set of k alike.

The k elements of least draw32(stream, i), with stream = mix(seed) (formats/SPEC.md, section 5). The draws of
one stream are distinct, so there are no ties; ranks with equal seeds choose the same elements, which is what
lets their values be summed without indices.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from wirecodec.arrays import Array
from wirecodec.errors import EncodeError
from wirecodec.prng import mix
from wirecodec.select.base import Selection, finite_or_raise
from wirecodec.select.topk import share_of
from wirecodec.sparse import index_dtype
from wirecodec.validation import as_ratio, settle

__all__ = ["RandomK"]

_DRAWS = 2**32


@dataclass(frozen=True)
class RandomK:
    """A share of the elements, at random; tensors of at most 2^32 elements.

    The one read of the array looks for NaN and Inf, which no feedback could hold back.
    """

    name: ClassVar[str] = "randomk"
    ratio: float

    def __post_init__(self) -> None:
        settle(self, ratio=as_ratio(self.ratio, "randomk: ratio"))

    def count_range(self, size: int) -> tuple[int, int]:
        """Return the fewest and the most of ``size`` elements that are selected."""
        k = share_of(self.ratio, size)
        return k, k

    def select(
        self, x: Array, *, gradient: Array | None = None, state: Any = None, seed: int = 0
    ) -> Selection:
        """k elements that depend on the size and the seed alone; EncodeError names the first NaN or Inf."""
        finite_or_raise(x, self.name)
        k = share_of(self.ratio, x.size)
        if k == x.size:
            return Selection(None)
        if x.size > _DRAWS:
            raise EncodeError(f"randomk draws among at most 2^32 elements, not {x.size}")
        return Selection(_least_draws(x.size, k, mix(seed)))


def _least_draws(size: int, k: int, stream: int) -> Array:
    """The k indices below ``size`` of least draw, ascending; k < size."""
    from wirecodec.kernels.cpu.select import randomk

    low, high = np.uint32(stream & 0xFFFFFFFF), np.uint32(stream >> 32)
    # Six standard deviations, and more, of how many draws fall into the first k/size of the range.
    spread = 6 * math.isqrt(k) + 16
    limits = [min(_DRAWS - 1, (k + spread) * _DRAWS // size), _DRAWS - 1]
    rooms = [min(size, k + 2 * spread), size]
    for limit, room in zip(limits, rooms, strict=True):
        found = np.empty(room + randomk.ROOM, index_dtype(size))
        draws = np.empty(room + randomk.ROOM, np.uint32)
        count = randomk.draws_at_most(low, high, size, np.uint32(limit), found, draws)
        if count >= k:
            break
    draws, found = draws[:count], found[:count]
    certain = max(0, k - spread) * _DRAWS // size
    rest = draws[draws >= certain]
    rank = k - 1 - (count - rest.size)
    last = np.partition(rest, rank)[rank]
    chosen: Array = found[draws <= last]
    return chosen
