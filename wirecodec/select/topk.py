"""``topk``: the k elements of largest magnitude, exactly k, ties to the lower index.

k is ⌊ratio · size⌋ in the exact decimal that was written (0.29 of 100 is 29), and at least 1 where there is
an element. Zeros are taken where nothing else is left.
"""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from functools import lru_cache
from typing import Any, ClassVar

from wirecodec.arrays import Array, bits_of
from wirecodec.errors import EncodeError
from wirecodec.select.base import Selection, all_finite, finite_or_raise
from wirecodec.select.topk_exact import top_k
from wirecodec.select.topk_fused_residual import top_k_of_sum
from wirecodec.validation import as_integer, as_ratio, settle

__all__ = ["TopK", "share_of"]


@lru_cache(maxsize=1024)
def share_of(ratio: float, size: int) -> int:
    """⌊ratio · size⌋ in exact decimal, at least 1 where size > 0, at most size."""
    exact = Fraction(Decimal(repr(float(ratio)))) * size
    return min(size, max(1, exact.numerator // exact.denominator)) if size else 0


@dataclass(frozen=True)
class TopK:
    """Exact top-k by magnitude.

    Give either ``ratio``, of the tensor's elements, above 0 and at most 1, or ``k``, a number of elements.
    """

    name: ClassVar[str] = "topk"
    ratio: float | None = None
    k: int | None = None

    def __post_init__(self) -> None:
        if (self.ratio is None) == (self.k is None):
            raise EncodeError("topk takes either ratio or k")
        if self.ratio is not None:
            settle(self, ratio=as_ratio(self.ratio, "topk: ratio"))
        if self.k is not None:
            settle(self, k=as_integer(self.k, "topk: k"))
            if self.k < 1:
                raise EncodeError(f"topk: k is {self.k}; it must be 1 or more")

    def count(self, size: int) -> int:
        """How many of ``size`` elements are kept."""
        return share_of(self.ratio, size) if self.ratio is not None else min(self.k or 0, size)

    def count_range(self, size: int) -> tuple[int, int]:
        """Return the fewest and the most of ``size`` elements that are selected."""
        return self.count(size), self.count(size)

    def select(
        self, x: Array, *, gradient: Array | None = None, state: Any = None, seed: int = 0
    ) -> Selection:
        """The top k; EncodeError names the first NaN or Inf."""
        k = self.count(x.size)
        if k == x.size:
            finite_or_raise(x, self.name)
            return Selection(None)
        indices, words = top_k(bits_of(x), k)
        values = words.view(x.dtype)
        if not all_finite(values):  # what is not finite is above all that is
            finite_or_raise(x, self.name)
        return Selection(indices, values=values)

    def select_sum(self, gradient: Array, residual: Array, rest: Array) -> Selection | None:
        """The top k of gradient + residual, found while the two are added.

        Args:
            gradient: flat, float32 or float64.
            residual: as many, of the same type.
            rest: as many, an array of ``arrays.aligned``; it gets the sums, with +0 for those chosen.

        None, and nothing of use in ``rest``, where they should be added first: where that is no dearer, or a
        sum is not finite.
        """
        k = self.count(gradient.size)
        found = top_k_of_sum(gradient, residual, k, rest) if k < gradient.size else None
        if found is None:
            return None
        indices, words = found
        values = words.view(gradient.dtype)
        return Selection(indices, values=values) if all_finite(values) else None
