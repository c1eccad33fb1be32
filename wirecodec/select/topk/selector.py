"""``topk``: the k elements of largest magnitude, exactly k.

k is ⌊ratio · n⌋, computed from the decimal that was written: 0.29 of 100 is 29. It is at least 1 if n > 0.
"""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from functools import lru_cache
from typing import Any, ClassVar

from wirecodec.arrays import Array, bits_of
from wirecodec.errors import EncodeError
from wirecodec.select.base import Selection, Selector, all_finite, require_finite
from wirecodec.select.term_table import TermTable
from wirecodec.select.topk.each import select_top_k_each
from wirecodec.select.topk.exact import select_top_k
from wirecodec.select.topk.joint import can_select_joint, select_top_k_joint
from wirecodec.select.topk.rounded import select_top_k_rounded
from wirecodec.validation import as_integer, as_ratio, set_fields


@lru_cache(maxsize=1024)
def fraction_count(ratio: float, size: int) -> int:
    """Return max(1, ⌊ratio · size⌋) in exact decimal; 0 if size is 0."""
    exact = Fraction(Decimal(repr(float(ratio)))) * size
    return min(size, max(1, exact.numerator // exact.denominator)) if size else 0


@dataclass(frozen=True)
class TopK(Selector):
    """Selector of the k elements of largest magnitude.

    Selects the first k of the order (|x_i| descending, i ascending). Ties go to the lower index. Zeros are
    selected only if fewer than k elements are not 0.

    Cost: about one read of the array; several if a sample misleads.

    Source: Aji and Heafield, Sparse Communication for Distributed Gradient Descent, EMNLP 2017. Their
    threshold comes from a sample; this selection is exact.

    Args:
        ratio: k/n, above 0 and at most 1; k = max(1, ⌊ratio · n⌋).
        k: a number of elements, 1 or more, instead of ``ratio``; tensors with fewer elements are sent whole.

    Raises:
        EncodeError: if both or neither of ``ratio`` and ``k`` are given, or one is out of range.

    Examples:
        >>> import numpy as np, wirecodec as wc
        >>> wc.selectors.TopK(0.5).select(np.array([0.1, -3.0, 2.0, 0.5], np.float32)).indices
        array([1, 2], dtype=int32)
    """

    name: ClassVar[str] = "topk"
    selects_sums: ClassVar[bool] = True
    ratio: float | None = None
    k: int | None = None

    def __post_init__(self) -> None:
        if (self.ratio is None) == (self.k is None):
            raise EncodeError("topk: either ratio or k must be given, not both")
        if self.ratio is not None:
            if isinstance(self.ratio, int) and 1 < self.ratio < 2**63:
                raise EncodeError(
                    f"topk: ratio is {self.ratio}; it must be at most 1, and k={self.ratio} is a number"
                )
            set_fields(self, ratio=as_ratio(self.ratio, "topk: ratio"))
        if self.k is not None:
            set_fields(self, k=as_integer(self.k, "topk: k"))
            if self.k < 1:
                raise EncodeError(f"topk: k is {self.k}; it must be 1 or more")

    def count(self, size: int) -> int:
        """Return k for a tensor of ``size`` elements."""
        return fraction_count(self.ratio, size) if self.ratio is not None else min(self.k or 0, size)

    def count_range(self, size: int) -> tuple[int, int]:
        """Return the fewest and the most of ``size`` elements that are selected."""
        return self.count(size), self.count(size)

    def select(
        self, x: Array, *, gradient: Array | None = None, state: Any = None, seed: int = 0
    ) -> Selection:
        """Select the k elements of largest magnitude.

        Args:
            x: (n,) any element type.
            gradient: unused.
            state: unused.
            seed: unused.

        Returns a Selection with values.

        Raises EncodeError at the first NaN or Inf.
        """
        k = self.count(x.size)
        if k == x.size:
            require_finite(x, self.name)
            return Selection(None)
        indices, words = select_top_k(bits_of(x), k)
        values = words.view(x.dtype)
        if not all_finite(values):  # NaN and Inf have the largest keys, so they are among the top k
            require_finite(x, self.name)
        return Selection(indices, values=values, finite=True)

    select_each = select_top_k_each

    def takes_joint(self, size: int) -> bool:
        """Tell whether ``select_joint`` can select from so many elements."""
        return can_select_joint(size, self.count(size))

    def select_joint(self, table: TermTable) -> Selection | None:
        """Select the top k of all tensors of a table, joined as one vector; see ``Selector``."""
        found = select_top_k_joint(table, self.count(table.total))
        if found is None:
            return None
        values = found[1].view(table.dtype)
        return Selection(found[0], values=values) if all_finite(values) else None

    def select_rounded(self, gradient: Array, residual: Array, out: Array) -> Selection | None:
        """Select from the sum of a 16-bit gradient and a float32 residual; see ``Selector``."""
        found = select_top_k_rounded(gradient, residual, out, self.count(gradient.size))
        if found is None:
            return None
        return Selection(found[0], values=found[1].view(gradient.dtype), finite=True)
