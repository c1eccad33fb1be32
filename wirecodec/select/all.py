"""``all``: every element.

For tensors that are not worth compressing, and for codecs that quantise a dense gradient.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from wirecodec.arrays import Array
from wirecodec.select.base import Selection

__all__ = ["All"]


@dataclass(frozen=True)
class All:
    """Every element; of a SparseTensor, every stored one."""

    name: ClassVar[str] = "all"

    def count_range(self, size: int) -> tuple[int, int]:
        """Return the fewest and the most of ``size`` elements that are selected."""
        return size, size

    def select(
        self, x: Array, *, gradient: Array | None = None, state: Any = None, seed: int = 0
    ) -> Selection:
        """No look at the values at all: NaN and Inf pass."""
        return Selection(None)
