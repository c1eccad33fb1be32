"""Selected elements of one tensor before they are encoded, and decoded chunks of one tensor."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from wirecodec.arrays import Array

__all__ = ["Part", "Support"]


@dataclass(frozen=True, eq=False)
class Support:
    """What was selected of one tensor, or of its coefficients.

    Attributes:
        indices: (r,) ascending, or None for all of ``size``.
        values: (r,) at the indices.
        size: elements of the tensor; or its coefficients, which are elements to everything else here.
        shape: the one that the tensor came in.
        source: gives the values at any ascending element numbers; None where those not selected are 0.
        domain: that of the coefficients; 0 where there was no transform.
        coefficients_of: the tensor's element type where there was one.
    """

    indices: Array | None
    values: Array
    size: int
    shape: tuple[int, ...]
    source: Callable[[Array], Array] | None = None
    domain: int = 0
    coefficients_of: np.dtype[Any] | None = None

    @property
    def dtype(self) -> np.dtype[Any]:
        """The tensor's element type."""
        return self.values.dtype if self.coefficients_of is None else self.coefficients_of

    @property
    def width(self) -> int:
        """Numbers of a value."""
        return 2 if self.values.dtype.kind == "c" else 1

    def at(self, where: Array) -> Array:
        """The tensor's values at ascending element numbers (n,), selected or not."""
        if self.source is not None:
            return self.source(where)
        if self.indices is None:
            return self.values[where]
        found: Array = np.zeros(where.size, self.values.dtype)
        if self.indices.size:
            slots = np.searchsorted(self.indices, where.astype(self.indices.dtype, copy=False))
            slots[slots == self.indices.size] = 0
            stored = self.indices[slots] == where
            found[stored] = self.values[slots[stored]]
        return found


@dataclass(frozen=True, eq=False, slots=True)
class Part:
    """A decoded chunk: ``indices`` (r,) u32 from ``base`` on, or None for all of ``d``; ``values`` (r,).

    ``work`` counts the steps that its index codec took beyond its bytes and r.
    """

    base: int
    d: int
    indices: Array | None
    values: Array
    work: int = 0
