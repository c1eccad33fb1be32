"""``topk``: the k elements of largest magnitude, exactly k.

k is ⌊ratio · n⌋, computed from the decimal that was written: 0.29 of 100 is 29. It is at least 1 if n > 0.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from decimal import Decimal
from fractions import Fraction
from functools import lru_cache
from typing import Any, ClassVar

import numpy as np

from wirecodec.arrays import Array, bits_of
from wirecodec.errors import EncodeError
from wirecodec.kernels.term_forms import IDENTITY, SUM
from wirecodec.select.base import BatchSelection, Selection, Selector, all_finite, require_finite
from wirecodec.select.term_table import TermTable
from wirecodec.select.topk_batch import select_top_k_batch, select_top_k_of_sums, select_top_k_of_totals
from wirecodec.select.topk_exact import IndicesAndBits, select_top_k
from wirecodec.select.topk_fused_residual import Terms, select_top_k_of_sum, select_top_k_of_terms
from wirecodec.select.topk_group import can_select_group, select_top_k_of_group
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
        >>> wc.TopK(0.5).select(np.array([0.1, -3.0, 2.0, 0.5], np.float32)).indices
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

    def select_batch(self, addresses: Array, sizes: Array, dtype: np.dtype[Any]) -> BatchSelection | None:
        """Select from each of many arrays of one type, as ``select`` does.

        Args:
            addresses: (n,) i64, of the arrays.
            sizes: (n,) i64, their elements.
            dtype: their type.

        Returns None if no array can be selected in a batch.
        """
        return select_top_k_batch(addresses, sizes, dtype, self)

    def select_sum(self, gradient: Array, residual: Array, rest: Array) -> Selection | None:
        """Select the top k of gradient + residual while adding the two.

        Args:
            gradient: (n,) float32 or float64.
            residual: (n,) of the same type.
            rest: (n,) an array from ``arrays.aligned``; it receives the sums, with +0 at the selected
                elements.

        Returns a Selection with values. Returns None, with undefined contents of ``rest``, if adding first is
        no slower or a sum is not finite.
        """
        k = self.count(gradient.size)
        found = select_top_k_of_sum(gradient, residual, k, rest) if k < gradient.size else None
        return _finite_selection(found, gradient.dtype)

    def select_terms(self, terms: Terms, rest: Array) -> Selection | None:
        """Select the top k of a sum of several terms while adding them, as ``select_sum`` does."""
        k = self.count(rest.size)
        found = select_top_k_of_terms(terms, k, rest) if k < rest.size else None
        return _finite_selection(found, rest.dtype)

    def select_each(self, table: TermTable, guesses: Array | None = None) -> BatchSelection | None:
        """Select the top k of each sum; see ``Selector``."""
        if table.form == IDENTITY:
            return self.select_batch(table.addresses[:, 0].copy(), table.sizes, table.dtype)
        if table.form == SUM:
            assert guesses is not None
            return self.select_sum_batch(
                np.ascontiguousarray(table.addresses[:, [0, 2, 4]]), table.sizes, table.dtype, guesses
            )
        return select_top_k_of_totals(replace(table, form=table.form - 2), self)

    def takes_joint(self, size: int) -> bool:
        """Tell whether ``select_joint`` can select from so many elements."""
        return self.takes_group(size)

    def select_joint(self, table: TermTable) -> Selection | None:
        """Select the top k of all sums, joined as one vector; see ``Selector``."""
        return self.select_group(replace(table, form=max(table.form - 2, 0)))

    def takes_group(self, size: int) -> bool:
        """Tell whether ``select_group`` can select from a group with so many elements."""
        return 0 < self.count(size) < size and can_select_group(size, self.count(size))

    def select_group(self, table: TermTable) -> Selection | None:
        """Select the top k of many sums, joined as one vector, whose size determines k.

        The table's sums are written, with +0 at the selected elements. ``takes_group`` must accept their
        number. Otherwise as ``select_terms``.
        """
        return _finite_selection(select_top_k_of_group(table, self.count(table.total)), table.dtype)

    def select_terms_batch(self, table: TermTable) -> BatchSelection | None:
        """Select the top k of each of many sums, as ``select_terms`` does.

        Returns None if no sum can be selected in a batch.
        """
        return select_top_k_of_totals(table, self)

    def select_sum_batch(
        self, addresses: Array, sizes: Array, dtype: np.dtype[Any], guesses: Array
    ) -> BatchSelection | None:
        """Select the top k of each of many sums of one type, as ``select_sum`` does.

        Args:
            addresses: (n, 3) i64, of each gradient, residual, and array for the sum, which keeps the selected
                elements.
            sizes: (n,) i64, elements of each of the three.
            dtype: float32 or float64.
            guesses: (n,) u64, 0 or what the last step's call has written; overwritten. They affect only the
                time.

        Returns None if no sum can be selected in a batch.
        """
        return select_top_k_of_sums(addresses, sizes, dtype, self, guesses)


def _finite_selection(found: IndicesAndBits | None, dtype: np.dtype[Any]) -> Selection | None:
    """Return a selection of indices and bits; None for None, and if a value is not finite."""
    if found is None:
        return None
    values = found[1].view(dtype)
    return Selection(found[0], values=values) if all_finite(values) else None
