"""``all``: every element.

It suits tensors that are not worth sparsifying, and codecs that quantise a dense gradient.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from wirecodec.arrays import Array
from wirecodec.select.base import Selection, Selector


@dataclass(frozen=True)
class All(Selector):
    """Selector of every element.

    Selects {0 … n-1}. Of a SparseTensor, it selects every stored element. NaN and Inf pass.

    Cost: no read of the array.

    Examples:
        >>> import numpy as np, wirecodec as wc
        >>> wc.selectors.All().select(np.zeros(3, np.float32)).indices is None
        True
    """

    name: ClassVar[str] = "all"
    of_any_type: ClassVar[bool] = True

    def count_range(self, size: int) -> tuple[int, int]:
        """Return the fewest and the most of ``size`` elements that are selected."""
        return size, size

    def select(
        self, x: Array, *, gradient: Array | None = None, state: Any = None, seed: int = 0
    ) -> Selection:
        """Select every element.

        Args:
            x: (n,) any element type; it is not read.

        Returns a Selection whose ``indices`` are None.
        """
        return Selection(None)
