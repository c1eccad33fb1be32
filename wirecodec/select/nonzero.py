"""``nonzero``: the elements whose bits are not all 0.

It is lossless, and suits gradients that are sparse by themselves. -0.0 is selected.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from wirecodec.arrays import Array
from wirecodec.select.base import Selection, Selector
from wirecodec.sparse import nonzero


@dataclass(frozen=True)
class NonZero(Selector):
    """Selector of the elements that have a bit set.

    Selects {i : bits(x_i) ≠ 0}. A receiver that fills the rest with +0.0 restores x bit for bit. NaN and Inf
    pass.

    Cost: one read of the array.

    Examples:
        >>> import numpy as np, wirecodec as wc
        >>> wc.selectors.NonZero().select(np.array([0.0, 2.0, -0.0], np.float32)).indices
        array([1, 2], dtype=int32)
    """

    name: ClassVar[str] = "nonzero"
    of_any_type: ClassVar[bool] = True

    def select(
        self, x: Array, *, gradient: Array | None = None, state: Any = None, seed: int = 0
    ) -> Selection:
        """Select the elements that have a bit set.

        Args:
            x: (n,) any element type.

        Returns a Selection.
        """
        return Selection(nonzero(x))
