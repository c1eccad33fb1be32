"""``nonzero``: the elements whose bits are not all 0.

Lossless for inherently sparse gradients; -0.0 counts as present.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from wirecodec.arrays import Array
from wirecodec.select.base import Selection
from wirecodec.sparse import nonzero

__all__ = ["NonZero"]


@dataclass(frozen=True)
class NonZero:
    """Every element that a zero of plain bits would not restore; one read of the array. NaN and Inf pass."""

    name: ClassVar[str] = "nonzero"

    def select(
        self, x: Array, *, gradient: Array | None = None, state: Any = None, seed: int = 0
    ) -> Selection:
        """The elements with a bit set."""
        found = nonzero(x)
        return Selection(None if found.size == x.size else found)
