"""``threshold``: the elements of magnitude t or more; zeros never.

As Aji and Heafield (2017) and Strom (2015) send gradients. How many that are is the data's affair.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar

from wirecodec.arrays import Array
from wirecodec.errors import EncodeError
from wirecodec.select.base import Selection
from wirecodec.select.threshold_common import select_by_threshold
from wirecodec.validation import as_real, settle

__all__ = ["Threshold"]


@dataclass(frozen=True)
class Threshold:
    """|x| ≥ t, for a finite t ≥ 0; one read of the array.

    t is rounded to the type of x, to nearest, ties to even, and bits are compared, so every machine chooses
    the same. A t that rounds to 0 takes the least magnitude there is; one that rounds to infinity takes none.
    """

    name: ClassVar[str] = "threshold"
    t: float

    def __post_init__(self) -> None:
        settle(self, t=as_real(self.t, "threshold: t"))
        if not 0 <= self.t < math.inf:
            raise EncodeError(f"threshold: t is {self.t!r}; it must be finite and 0 or more")

    def select(
        self, x: Array, *, gradient: Array | None = None, state: Any = None, seed: int = 0
    ) -> Selection:
        """The elements that reach t; EncodeError names the first NaN or Inf."""
        return select_by_threshold(x, self.t, self.name, expected=x.size // 64)
