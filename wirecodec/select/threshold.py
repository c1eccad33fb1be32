"""``threshold``: the elements of magnitude t or more."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar

from wirecodec.arrays import Array
from wirecodec.errors import EncodeError
from wirecodec.select.base import Selection, Selector
from wirecodec.select.threshold_common import select_by_threshold
from wirecodec.validation import as_real, set_fields


@dataclass(frozen=True)
class Threshold(Selector):
    """Selector of the elements that reach a fixed magnitude.

    Selects {i : |x_i| ≥ t, x_i ≠ 0}. The number of elements depends on the data. t is rounded to the type of
    x, to nearest with ties to even, and bits are compared, so every machine selects the same elements. A t
    that rounds to 0 selects all elements that are not 0; one that rounds to infinity selects none.

    Cost: one read of the array.

    Source: Strom, Scalable Distributed DNN Training Using Commodity GPU Cloud Computing, Interspeech 2015.

    Args:
        t: the smallest magnitude that is selected, in the unit of x; finite and 0 or more.

    Raises:
        EncodeError: if ``t`` is out of range.

    Examples:
        >>> import numpy as np, wirecodec as wc
        >>> wc.selectors.Threshold(1.0).select(np.array([0.1, -3.0, 1.0], np.float32)).indices
        array([1, 2], dtype=int32)
    """

    name: ClassVar[str] = "threshold"
    t: float

    def __post_init__(self) -> None:
        set_fields(self, t=as_real(self.t, "threshold: t"))
        if not 0 <= self.t < math.inf:
            raise EncodeError(f"threshold: t is {self.t!r}; it must be finite and 0 or more")

    def select(
        self, x: Array, *, gradient: Array | None = None, state: Any = None, seed: int = 0
    ) -> Selection:
        """Select the elements that reach t.

        Args:
            x: (n,) any element type.

        Returns a Selection.

        Raises EncodeError at the first NaN or Inf.
        """
        return select_by_threshold(x, self.t, self.name, expected=x.size // 64)
